// Whether a process ended as its program ends processes, or badly: by a signal that nobody asked it to end with, or
// with an error. Pure.
#ifndef COWPROF_MODEL_FACTS_BAD_END_H_
#define COWPROF_MODEL_FACTS_BAD_END_H_

#include "absl/time/time.h"
#include "model/facts/run_model.h"

namespace cowprof {

// All are asked of processes whose exit is known.

// A trainer that fails this soon after a worker, or after another rank, fails by that; later, both ends are told.
constexpr absl::Duration kPassedOnWithin = absl::Seconds(10);
// A parent or supervisor that outlives a death by this much does not end itself.
constexpr absl::Duration kLivesOn = absl::Seconds(1);

// The signal that killed the process, and when it was sent: the first SIGKILL, or the last of any other signal, since
// the process survived the earlier ones. Where a handler raised it again, the one that the handler took. Null: the
// sending was not seen.
struct Killing {
  absl::Duration t;
  const SignalSent* sent = nullptr;
};
Killing KillingSignal(const ProcessModel& process);

// By an OOM killer in user space, such as earlyoom.
bool IsFromOomDaemon(const SignalSent& sent);
// The signal by which it asked the process to end, if the process then exited by itself. Null: it did not.
Killing OomDaemonRequest(const ProcessModel& process);
// Of one that exited: by a signal shortly before, and not since memory ran short.
bool WasAskedToEnd(const ProcessModel& process);
// Its gunicorn master ended it since it had not answered in time.
bool IsGunicornTimeout(const ProcessModel& process, const RunModel& model);
// Its uvicorn supervisor killed it since it had not answered in time.
bool IsUvicornTimeout(const ProcessModel& process, const RunModel& model);
// The error that ended it, as far as it was read. Null: not known, or none.
const LastErrorSeen* FatalError(const ProcessModel& process);
// The same of an error while an object was pickled to start a process.
const StartFailed* FatalStartError(const ProcessModel& process);
// By its exit code.
bool Failed(const ProcessModel& process);
bool EndedBadly(const ProcessModel& process, const RunModel& model);
// Of the target or a rank, by its exit code, unless it was asked to end.
bool TrainerFailed(const ProcessModel& process);

// Either of both; false as long as the exit is not known.
bool HasBadEnd(const ProcessModel& process, const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_BAD_END_H_
