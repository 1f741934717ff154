// A process while it is looked into: its threads, its memory, and what CPython keeps of its threads.
#ifndef COWPROF_RECORDER_OPENED_PROCESS_H_
#define COWPROF_RECORDER_OPENED_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "python/interpreter.h"
#include "python/locks.h"
#include "python/process_memory.h"
#include "source/procfs.h"
#include "source/wait_state.h"

namespace cowprof {

struct OpenedProcess {
  OpenedProcess(const ProcFs& proc, pid_t pid, ThreadWaits found);
  const ThreadState* StateOf(pid_t tid_inside) const;      // null: no thread of Python
  const ThreadWait* ThreadInside(pid_t tid_inside) const;  // null: no such thread
  const ThreadWait* MainThread() const;                    // null: it has ended, and others go on

  const pid_t pid;
  ThreadWaits waits;
  ProgramFiles files;
  ProcessMemory memory;
  absl::StatusOr<Interpreter> interpreter;
  std::optional<LockReader> locks;                 // absent: no Python that can be read
  absl::flat_hash_map<pid_t, ThreadState> states;  // by tid_inside
  bool has_all_states = false;                     // none may be missing
};

std::unique_ptr<OpenedProcess> OpenProcess(const ProcFs& proc, pid_t pid);  // null: it is gone, or may not be read

// The process that forked `child`: `parent`, which /proc shows, if it runs the same program. An orphan's new parent
// does not.
std::unique_ptr<OpenedProcess> OpenParent(const ProcFs& proc, const OpenedProcess& child, pid_t parent);

bool SamePidNamespace(const ProcFs& proc, pid_t a, pid_t b);

// Whether the parent's memory is the child's own, as after clone(2) with CLONE_VM or vfork(2): then the parent could
// wake it. A fork's child has gone elsewhere on its stack since.
bool SharesMemory(const OpenedProcess& child, const OpenedProcess& parent);

}  // namespace cowprof

#endif  // COWPROF_RECORDER_OPENED_PROCESS_H_
