// Looks at what the threads of processes wait for, from outside. Cheap at first (a few small files of /proc a thread);
// only processes that did not move between two looks are looked into: their memory and stacks, and their parent's.
#ifndef COWPROF_RECORDER_HANG_LOOK_H_
#define COWPROF_RECORDER_HANG_LOOK_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "model/facts/fork_hazard.h"
#include "model/facts/waits.h"
#include "model/judge/hangs.h"
#include "source/native_symbols.h"
#include "source/procfs.h"

namespace cowprof {

// One look at the threads of some processes. Those that are gone are left out.
struct ThreadsLook {
  absl::flat_hash_map<pid_t, std::vector<ThreadWait>> processes;
  std::vector<pid_t> not_permitted;
  std::map<std::string, std::vector<pid_t>> not_looked_at;  // by why
};
ThreadsLook LookAtThreads(const ProcFs& proc, const std::vector<pid_t>& pids);

// The hangs among `pids`, in their order, by two looks: `before`, at least 20 ms ago, and one that is taken now.
// `at_fork`: of the one parent, near the fork of the one process; null: not known. `suspects`: as JudgeWaits() has
// them.
std::vector<Hang> FindHangs(const ProcFs& proc, const std::vector<pid_t>& pids, const ThreadsLook& before,
                            ElfCache* elf_cache, const ForkSnapshot* at_fork = nullptr,
                            std::vector<Hang>* suspects = nullptr);

}  // namespace cowprof

#endif  // COWPROF_RECORDER_HANG_LOOK_H_
