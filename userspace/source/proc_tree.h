// Follows a target and everything it forks by polling /proc, which needs no privileges for one's own processes.
// Processes that are forked and end between two looks are missed, never made up. Ends are noticed at once through
// pidfds; exit statuses are known if the kernel still reports them.
#ifndef COWPROF_SOURCE_PROC_TREE_H_
#define COWPROF_SOURCE_PROC_TREE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "model/facts/sample.h"
#include "posix/fd.h"
#include "source/procfs.h"

namespace cowprof {

struct TreeMember {
  ProcessId id, parent;
  Origin origin = Origin::kForked;
  uint32_t serial = 0;  // in order of discovery: parents before their children
  std::string comm;
  uint64_t faults = 0;  // since its fork
  bool execed = false;  // since the last look
  bool ended = false;
  uint64_t exited_ns = 0;          // when the end was noticed, CLOCK_BOOTTIME; 0 while alive
  std::optional<int> exit_status;  // as wait(2) reports it; absent: the kernel does not report it (any more)
};

class ProcTree {
 public:
  explicit ProcTree(ProcFs proc);

  // NotFound: no such process, or it has just ended.
  absl::Status Follow(pid_t target);
  // Looks at all members; returns them by serial. A member that has ended is returned once more, then forgotten. One
  // that lives but can't be read now (EMFILE, ENOMEM) is returned as it was.
  std::vector<TreeMember> Look();
  // Readable when a member has ended since the last look.
  int wake_fd() const { return ends_.fd(); }
  // The same of members that had not called exec at two looks: one that is new may be a command that is about to.
  int worker_wake_fd() const { return worker_ends_.fd(); }

 private:
  struct Known {
    TreeMember member;
    Fd pidfd;               // none before Linux 5.3, or if no descriptors are left
    bool may_look = false;  // its memory may be read: then /proc also shows its exit status
    bool may_exec = false;  // has not called exec since its fork: PF_FORKNOEXEC
    uint64_t stack_start = 0;
  };

  std::vector<pid_t> ChildrenOf(pid_t pid) const;
  Known* Add(pid_t pid, const ProcessId& parent, Origin origin);
  void Refresh(Known* known) const;
  void Discover(Origin origin);

  ProcFs proc_;
  bool lists_children_;  // CONFIG_PROC_CHILDREN; otherwise reads the parent of every process
  Fd ends_;              // epoll on the pidfds
  Fd worker_ends_;       // epoll on those of workers
  uint32_t last_serial_ = 0;
  std::vector<Known> members_;              // by serial
  absl::flat_hash_set<ProcessId> zombies_;  // reported as ended, but not reaped yet
};

// Whether the child has its parent's memory itself and no copy of it, as between vfork(2) and exec: then the kernel's
// figures of both are the same. A fork's child lacks pages of files that its parent has read.
bool HasMemoryOf(const ProcFs& proc, pid_t parent, pid_t child);

// `pid` and its descendants.
std::vector<pid_t> FamilyOf(const ProcFs& proc, pid_t pid);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PROC_TREE_H_
