// Gives up every right that serving a page does not need, for good. Called by the page's server before it looks at the
// first byte from outside; owns the list of system calls that it may still make.
#ifndef COWPROF_SERVE_SANDBOX_H_
#define COWPROF_SERVE_SANDBOX_H_

#include <string>

#include "absl/status/statusor.h"
#include "posix/rights.h"

namespace cowprof {

// From here on the process is `user` without other groups and capabilities, can't gain any, dies with the
// process that started it, can't be traced, and may use the descriptors that it has, but open, connect, execute, fork,
// trace and signal nothing. The status names the step that failed: then nothing must be served. The text, if any, is of
// what this host does not offer and the rest makes up for.
absl::StatusOr<std::string> EnterSandbox(const UserIds& user);

}  // namespace cowprof

#endif  // COWPROF_SERVE_SANDBOX_H_
