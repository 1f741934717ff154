// Measures how long the interpreter of a process takes to pickle and unpickle objects of a given mix, on this host.
// Runs the interpreter's executable with a program of our own: a new process, never the target. It runs as the target's
// user, without rights, and only from a path that nobody else could have changed. Judges nothing.
#ifndef COWPROF_SOURCE_PICKLE_RATE_H_
#define COWPROF_SOURCE_PICKLE_RATE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "model/facts/pickle_mix.h"
#include "source/procfs.h"

namespace cowprof {

// What may be run, and as whom.
struct RunnableInterpreter {
  std::string path;
  uid_t uid = 0;
  gid_t gid = 0;
};
// FailedPrecondition: why it will not be run. `version`: "3.11.2".
absl::StatusOr<RunnableInterpreter> FindRunnable(const ProcFs& proc, pid_t pid, const std::string& version);

// Runs it three times, once with objects that are scattered in memory. Takes at most `most` for each.
absl::StatusOr<std::vector<PickleRun>> MeasurePickle(const RunnableInterpreter& interpreter, const PickleMix& sample,
                                                     absl::Duration most = absl::Seconds(10));

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PICKLE_RATE_H_
