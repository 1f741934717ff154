// Which thread of a parent held, at a child's fork, what the child waits for: by the look at the parent near that fork.
// For locks that the parent has released since. Pure.
#ifndef COWPROF_MODEL_JUDGE_FORK_HOLDER_H_
#define COWPROF_MODEL_JUDGE_FORK_HOLDER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "model/facts/fork_hazard.h"
#include "model/facts/process_id.h"
#include "model/facts/waits.h"

namespace cowprof {

// Whether a thread of the parent began before the fork of `child`. Start times are known to a clock tick; within one,
// the kernel gave the lower number first.
bool BeganBefore(const ProcessId& child, pid_t tid, uint64_t start_ns);

// Whether the look was so close to the fork that what threads did then tells something.
bool IsClose(const ForkSnapshot& snapshot);

// Null: no such thread, or it began after the fork: glibc gives the ident of a thread that has ended to the next one.
const HazardThread* ThreadByIdent(const ForkSnapshot& snapshot, uint64_t ident, const ProcessId& child);
const HazardThread* ThreadByTid(const ForkSnapshot& snapshot, pid_t tid_inside, const ProcessId& child);

// The thread that held the Lock at `object`, or imported `module`, at the look: neither keeps its owner. Null: none was
// seen, or the look was not close to the fork.
const HazardThread* HolderOfLock(const ForkSnapshot& snapshot, uint64_t object);
const HazardThread* ImporterAtFork(const ForkSnapshot& snapshot, absl::string_view module);

// Whether the thread `tid` of the parent got such a lock only after the look, which came after the fork; `holder` is
// the one that the look shows, or null.
bool GotItLater(const ForkSnapshot& snapshot, const HazardThread* holder, pid_t tid);

Holder HolderAtFork(const ForkSnapshot& snapshot, const HazardThread& thread);

// "2 ms after the fork".
std::string WhenLooked(absl::Duration offset);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_FORK_HOLDER_H_
