// Gives up every right that serving a page does not need, for good, before the first byte from outside is read. Owns
// the list of system calls that the serving process may still make.
#ifndef COWPROF_SERVE_SANDBOX_H_
#define COWPROF_SERVE_SANDBOX_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "posix/rights.h"

namespace cowprof {

// Becomes `user` without supplementary groups or capabilities, and can never gain any. The process then dies with its
// parent, can't be traced, and can use its open descriptors but not open, connect, execute, fork, trace or signal
// anything. The status names the step that failed: serve nothing then. The text, if any, names a step that this host
// does not support and that the others cover. `most_descriptors`: that it may have open.
absl::StatusOr<std::string> EnterSandbox(const UserIds& user, size_t most_descriptors = 128);

}  // namespace cowprof

#endif  // COWPROF_SERVE_SANDBOX_H_
