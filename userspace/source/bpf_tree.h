// Which processes the probes follow: puts the target and all its descendants into the probes' table of processes,
// without missing one or inserting one twice.
#ifndef COWPROF_SOURCE_BPF_TREE_H_
#define COWPROF_SOURCE_BPF_TREE_H_

#include <sys/types.h>

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/facts/sample.h"
#include "source/bpf_handles.h"

namespace cowprof {

class FollowedTree {
 public:
  // Consuming the ring appends to `forks`. All three must outlive this.
  FollowedTree(cowprof_probes& skeleton, ring_buffer* ring, const std::vector<cowprof_task>& forks)
      : skeleton_(skeleton), ring_(ring), forks_(forks) {}

  // NotFound: no such process, or it has just ended.
  absl::Status Follow(pid_t target);
  bool is_target(const ProcessId& id) const { return id == target_; }
  // Whether it existed at attach, as opposed to being forked later.
  bool was_there(const ProcessId& id) const { return inserted_.contains(id); }
  // Call when its row was removed.
  void Forget(const cowprof_process_key& key, const ProcessId& id);

 private:
  absl::StatusOr<std::vector<cowprof_task>> ListTasks() const;
  bool Insert(const cowprof_task& task);
  void DeleteRow(const cowprof_process_key& key);
  void FollowDescendants(const std::vector<cowprof_task>& tasks);
  absl::Status FollowUnseenForks();
  absl::Status DropTheDead();

  cowprof_probes& skeleton_;
  ring_buffer* ring_;
  const std::vector<cowprof_task>& forks_;
  absl::flat_hash_map<ProcessId, cowprof_process_key> inserted_;
  ProcessId target_;
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_TREE_H_
