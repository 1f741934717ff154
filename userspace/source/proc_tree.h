// A target and all that it forks, followed by asking /proc again and again: no right is needed but to look at one's own
// processes. Called by pagemap_faults.cc. What is forked and has ended between two looks is never seen, and never made
// up. An end is known by a pidfd, at once; how a process ended is known where the kernel still says so.
#ifndef COWPROF_SOURCE_PROC_TREE_H_
#define COWPROF_SOURCE_PROC_TREE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "model/sample.h"
#include "posix/fd.h"
#include "source/procfs.h"

namespace cowprof {

struct TreeMember {
  ProcessId id, parent;
  Origin origin = Origin::kForked;
  uint32_t serial = 0;  // in the order of discovery: parents before their children
  std::string comm;
  uint64_t faults = 0;  // since its fork
  bool execed = false;  // since the last look
  bool ended = false;
  uint64_t exited_ns = 0;          // when that was seen, CLOCK_BOOTTIME; 0 while it lives
  std::optional<int> exit_status;  // as wait(2) reports it; absent: the kernel does not say (any more)
};

class ProcTree {
 public:
  explicit ProcTree(ProcFs proc);

  // NotFound: there is no such process, or it has just ended.
  absl::Status Follow(pid_t target);
  // One look at everybody, by serial. One that has ended is told once more and then forgotten.
  std::vector<TreeMember> Look();
  // Readable when a member has ended that the last look did not tell.
  int wake_fd() const { return ends_.fd(); }

 private:
  struct Known {
    TreeMember member;
    Fd pidfd;               // none on kernels before 5.3, or where there are no descriptors left
    bool may_look = false;  // at its memory: then its exit status is told, too
    bool may_exec = false;  // it has not called exec since its fork: PF_FORKNOEXEC
    uint64_t stack_start = 0;
  };

  std::vector<pid_t> ChildrenOf(pid_t pid) const;
  Known* Add(pid_t pid, const ProcessId& parent, Origin origin);
  void Refresh(Known* known) const;
  void Discover(Origin origin);

  ProcFs proc_;
  bool lists_children_;  // CONFIG_PROC_CHILDREN; otherwise every process is asked for its parent
  Fd ends_;              // epoll on the pidfds
  uint32_t last_serial_ = 0;
  std::vector<Known> members_;              // by serial
  absl::flat_hash_set<ProcessId> zombies_;  // told, but nobody has waited for them yet
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PROC_TREE_H_
