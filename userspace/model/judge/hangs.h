// Who can never go on, by two looks at a process, and why. Pure.
//
// Rule 1, "never": every thread of the process waits without timeout on a word that only its own threads could wake,
// and between the looks none used CPU time or was switched. Rule 2, "owner gone": what a thread waits for belongs to a
// thread that does not exist in its process: it stayed in the parent at the fork, or has ended. If it is
// not known which, the proof is always rule 2.
#ifndef COWPROF_MODEL_JUDGE_HANGS_H_
#define COWPROF_MODEL_JUDGE_HANGS_H_

#include <vector>

#include "absl/types/span.h"
#include "model/facts/hang.h"
#include "model/facts/waits.h"

namespace cowprof {

// The threads of one process that wait for what nobody will release, in the order of their tids. `before`: an earlier
// look, at least 20 ms before; of the threads only `wait` counts. Empty: nothing is proven. `suspects`, if not null:
// those that rule 1 would tell if no handler of a signal might release what they wait for; of each only what it is.
std::vector<Hang> JudgeWaits(absl::Span<const ThreadWait> before, const WaitingProcess& process,
                             std::vector<Hang>* suspects = nullptr);

// Whether it waits in Future.result() or the like, and no thread of its process could set the result: none but helpers
// of multiprocessing runs Python. What is meant to wait until it is ended does not wait for a result.
bool WaitsForFuture(const WaitingProcess& process, const WaitingThread& thread);

// Whether rule 1 may still apply: worth a closer look. Rule 2 may, too, where only `any` is true.
struct StillWaits {
  bool all = false, any = false;
};
StillWaits CompareLooks(absl::Span<const ThreadWait> before, absl::Span<const ThreadWait> now);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_HANGS_H_
