// The order of the steps prevents gaps: the fork probe runs before the tree is first listed, and reports every fork of
// the host until the tree is complete.
#include "source/bpf_tree.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace cowprof {

using Key = cowprof_process_key;
using Row = cowprof_process_row;

// Every process of cowprof's pid namespace with its exact start time, which /proc truncates to 10 ms.
absl::StatusOr<std::vector<cowprof_task>> FollowedTree::ListTasks() const {
  absl::StatusOr<std::string> read = RunIterator(skeleton_.progs.list_tasks);
  if (!read.ok()) return read.status();
  const std::string& bytes = *read;
  std::vector<cowprof_task> tasks(bytes.size() / sizeof(cowprof_task));
  memcpy(tasks.data(), bytes.data(), tasks.size() * sizeof(cowprof_task));
  return tasks;
}

// The number of rows whose pid has the same low bits; the probes check it before they look up a row.
static uint32_t& Followed(cowprof_probes& skeleton, const Key& key) {
  return skeleton.bss->followed[key.pid & (COWPROF_FOLLOWED_SLOTS - 1)];
}

void FollowedTree::DeleteRow(const Key& key) {
  if (bpf_map_delete_elem(bpf_map__fd(skeleton_.maps.processes), &key) == 0)
    __atomic_sub_fetch(&Followed(skeleton_, key), 1, __ATOMIC_RELEASE);
}

void FollowedTree::Forget(const Key& key, const ProcessId& id) {
  DeleteRow(key);
  inserted_.erase(id);
}

// False if the process already has a row, inserted here or by the fork probe.
bool FollowedTree::Insert(const cowprof_task& task) {
  Row row = {};
  row.id = task.id;
  row.parent = task.parent_id;
  row.serial = __atomic_add_fetch(&skeleton_.bss->last_serial, 1, __ATOMIC_RELAXED);
  memcpy(row.comm, task.comm, sizeof(row.comm));
  // Nobody looked at its heap when it was forked.
  if (task.parent_id.pid != 0) {
    row.heap = COWPROF_HEAP_FORGOTTEN;
    __atomic_store_n(&skeleton_.bss->heaps_known, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&skeleton_.bss->heaps_unsure, 1, __ATOMIC_RELAXED);
  }
  __atomic_add_fetch(&Followed(skeleton_, task.process), 1, __ATOMIC_RELEASE);
  if (bpf_map_update_elem(bpf_map__fd(skeleton_.maps.processes), &task.process, &row, BPF_NOEXIST) != 0) {
    __atomic_sub_fetch(&Followed(skeleton_, task.process), 1, __ATOMIC_RELEASE);
    // EEXIST: the fork probe was faster. A full table counts as a lost process, as in the fork probe.
    if (errno != EEXIST) __atomic_fetch_add(&skeleton_.bss->losses.processes_dropped, 1, __ATOMIC_RELAXED);
    return false;
  }
  inserted_[IdOf(task.id)] = task.process;
  return true;
}

void FollowedTree::FollowDescendants(const std::vector<cowprof_task>& tasks) {
  absl::flat_hash_map<ProcessId, std::vector<const cowprof_task*>> children;
  for (const cowprof_task& task : tasks) children[IdOf(task.parent_id)].push_back(&task);
  std::vector<ProcessId> open = {target_};
  absl::flat_hash_set<ProcessId> seen = {target_};
  for (size_t i = 0; i < open.size(); ++i) {
    const auto found = children.find(open[i]);
    if (found == children.end()) continue;
    for (const cowprof_task* task : found->second) {
      // A target may have started cowprof itself.
      if (static_cast<pid_t>(task->id.pid) == getpid() || !seen.insert(IdOf(task->id)).second) continue;
      Insert(*task);
      open.push_back(IdOf(task->id));
    }
  }
}

// A process may have forked after the tree was listed and before it was inserted; that fork was reported as one of an
// untracked process. Once a pass inserts nothing, every member of the tree was followed before its next fork.
absl::Status FollowedTree::FollowUnseenForks() {
  size_t next = 0;
  for (bool inserted = true; inserted;) {
    inserted = false;
    if (int error = ring_buffer__consume(ring_); error < 0) return BpfStatus(-error, "read the ring buffer");
    for (; next < forks_.size(); ++next) {
      Row row;
      if (bpf_map_lookup_elem(bpf_map__fd(skeleton_.maps.processes), &forks_[next].parent, &row) != 0) continue;
      inserted |= Insert(forks_[next]);
    }
  }
  return absl::OkStatus();
}

absl::Status FollowedTree::Follow(pid_t target) {
  absl::StatusOr<std::vector<cowprof_task>> tasks = ListTasks();
  if (!tasks.ok()) return tasks.status();
  const auto is_target = [&](const cowprof_task& task) { return static_cast<pid_t>(task.id.pid) == target; };
  const auto root = std::find_if(tasks->begin(), tasks->end(), is_target);
  if (root == tasks->end()) return absl::NotFoundError(absl::StrCat("no process ", target));
  target_ = IdOf(root->id);
  root->parent_id = {};
  Insert(*root);
  // The list is older than the target's row: whatever was forked in between is in a second list, or the probe saw it.
  tasks = ListTasks();
  if (!tasks.ok()) return tasks.status();
  FollowDescendants(*tasks);
  if (absl::Status status = FollowUnseenForks(); !status.ok()) return status;
  skeleton_.bss->scanning = 0;
  if (absl::Status status = DropTheDead(); !status.ok()) return status;
  return inserted_.contains(target_) ? absl::OkStatus() : absl::NotFoundError("it has just ended");
}

// Removes processes that ended after the tree was listed and before insertion, which the exit probe did not know.
absl::Status FollowedTree::DropTheDead() {
  const absl::StatusOr<std::vector<cowprof_task>> tasks = ListTasks();
  if (!tasks.ok()) return tasks.status();
  absl::flat_hash_set<ProcessId> living;
  for (const cowprof_task& task : *tasks) living.insert(IdOf(task.id));
  const int map = bpf_map__fd(skeleton_.maps.processes);
  absl::erase_if(inserted_, [&](const std::pair<const ProcessId, Key>& entry) {
    const auto& [id, key] = entry;
    Row row;
    if (living.contains(id) || bpf_map_lookup_elem(map, &key, &row) != 0 || row.exited_ns != 0) return false;
    DeleteRow(key);
    return true;
  });
  return absl::OkStatus();
}

}  // namespace cowprof
