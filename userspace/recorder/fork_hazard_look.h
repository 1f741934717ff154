// Looks at the threads of a process that forks, or may: their names and Python stacks, the locks that they hold, the
// libraries that they belong to. Nothing is stopped: what is read is as of some moment during the look.
#ifndef COWPROF_RECORDER_FORK_HAZARD_LOOK_H_
#define COWPROF_RECORDER_FORK_HAZARD_LOOK_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "model/facts/fork_hazard.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"
#include "source/procfs.h"

namespace cowprof {

// The tids of a process, ascending, at most 4,096. Empty: it is gone, or may not be read.
std::vector<pid_t> ListThreadIds(const ProcFs& proc, pid_t pid);

struct HazardSubject {
  pid_t pid = 0;
  const MemoryReader& memory;
  const Interpreter* python = nullptr;  // null: none that can be read
  std::vector<pid_t> tids;              // as listed
  // What it has just forked, and that one's memory; 0 and null: nothing.
  pid_t child = 0;
  uint64_t forked_ns = 0;  // CLOCK_BOOTTIME; threads that began later are left out
  const MemoryReader* child_memory = nullptr;
};

// All but `child` and `delay`, which the caller knows.
ForkHazardSeen LookAtForkHazard(const ProcFs& proc, const HazardSubject& subject);

}  // namespace cowprof

#endif  // COWPROF_RECORDER_FORK_HAZARD_LOOK_H_
