// Which thread has what a thread of a child waits for: in the child itself, or in the parent, where it stayed behind.
#ifndef COWPROF_RECORDER_LOCK_OWNER_H_
#define COWPROF_RECORDER_LOCK_OWNER_H_

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/facts/fork_hazard.h"
#include "model/facts/waits.h"
#include "python/locks.h"
#include "recorder/opened_process.h"
#include "source/procfs.h"

namespace cowprof {

// Each fills in `owner` and `holder` of what `waiter`, a thread of `child`, waits for. `parent` may be null, and so may
// `at_fork`, the look at the parent near the fork of `child`.

// A lock of Python's.
void FindOwner(OpenedProcess* child, OpenedProcess* parent, const ForkSnapshot* at_fork, const ThreadWait& waiter,
               const LockObject& lock, Awaited* awaited);
// A mutex or a rwlock of native code; `owner` is what it says itself, `in_parent` what the parent's says.
void FindOwnerOfMutex(const ProcFs& proc, OpenedProcess* child, OpenedProcess* parent, const ForkSnapshot* at_fork,
                      const ThreadWait& waiter, pid_t owner, std::optional<pid_t> in_parent, Awaited* awaited);
// The import of the module `awaited->detail`.
void FindImporter(OpenedProcess* child, OpenedProcess* parent, const ForkSnapshot* at_fork, const ThreadWait& waiter,
                  Awaited* awaited);
// How many native threads of the parent that began in the file `module` stayed there at the fork.
size_t LeftBehind(const ProcFs& proc, const OpenedProcess& child, const OpenedProcess& parent,
                  const ForkSnapshot* at_fork, absl::string_view module);
// The names of the parent's threads that set results of Futures, and stayed there at the fork; sorted.
std::vector<std::string> SettersOfFutures(const OpenedProcess& child, OpenedProcess* parent,
                                          const ForkSnapshot* at_fork);

}  // namespace cowprof

#endif  // COWPROF_RECORDER_LOCK_OWNER_H_
