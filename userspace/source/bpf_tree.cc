// See bpf_tree.h. The order is what makes it gapless: the fork probe runs before the first look at the tree, and
// reports every fork of the host until the tree is closed.
#include "source/bpf_tree.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace cowprof {

using Key = cowprof_process_key;
using Row = cowprof_process_row;

// Every process of the host with its exact start time, which /proc cuts to 10 ms.
absl::StatusOr<std::vector<cowprof_task>> FollowedTree::ListTasks() const {
  absl::StatusOr<std::string> read = RunIterator(skeleton_.progs.list_tasks);
  if (!read.ok()) return read.status();
  const std::string& bytes = *read;
  std::vector<cowprof_task> tasks(bytes.size() / sizeof(cowprof_task));
  memcpy(tasks.data(), bytes.data(), tasks.size() * sizeof(cowprof_task));
  return tasks;
}

// False if the process has a row already, made by us or by the fork probe.
bool FollowedTree::Insert(const Key& key, const Key& parent, const char* comm) {
  Row row = {};
  row.parent = parent;
  row.serial = __atomic_add_fetch(&skeleton_.bss->last_serial, 1, __ATOMIC_RELAXED);
  memcpy(row.comm, comm, sizeof(row.comm));
  if (bpf_map_update_elem(bpf_map__fd(skeleton_.maps.processes), &key, &row, BPF_NOEXIST) != 0) {
    // The fork probe was first (EEXIST): nothing to do. A full table is counted like a fork's.
    if (errno != EEXIST) __atomic_fetch_add(&skeleton_.bss->losses.processes_dropped, 1, __ATOMIC_RELAXED);
    return false;
  }
  inserted_.insert(IdOf(key));
  return true;
}

void FollowedTree::FollowDescendants(const std::vector<cowprof_task>& tasks, const Key& target) {
  absl::flat_hash_map<ProcessId, std::vector<const cowprof_task*>> children;
  for (const cowprof_task& task : tasks) children[IdOf(task.parent)].push_back(&task);
  std::vector<Key> open = {target};
  absl::flat_hash_set<ProcessId> seen = {IdOf(target)};
  for (size_t i = 0; i < open.size(); ++i) {
    const auto found = children.find(IdOf(open[i]));
    if (found == children.end()) continue;
    for (const cowprof_task* task : found->second) {
      if (!seen.insert(IdOf(task->process)).second) continue;
      Insert(task->process, task->parent, task->comm);
      open.push_back(task->process);
    }
  }
}

// A process that we had not inserted yet may have forked between the look at the tree and its insertion; its fork was
// reported as one of a stranger. Once a pass inserts nobody, every member of the tree was followed before its next
// fork.
absl::Status FollowedTree::FollowUnseenForks() {
  size_t next = 0;
  for (bool inserted = true; inserted;) {
    inserted = false;
    if (int error = ring_buffer__consume(ring_); error < 0) return BpfStatus(-error, "read the ring buffer");
    for (; next < events_.size(); ++next) {
      const cowprof_event& event = events_[next];
      Row row;
      if (event.kind != COWPROF_FORK_SEEN ||
          bpf_map_lookup_elem(bpf_map__fd(skeleton_.maps.processes), &event.parent, &row) != 0) {
        continue;
      }
      inserted |= Insert(event.process, event.parent, event.comm);
    }
  }
  return absl::OkStatus();
}

absl::Status FollowedTree::Follow(pid_t target) {
  absl::StatusOr<std::vector<cowprof_task>> tasks = ListTasks();
  if (!tasks.ok()) return tasks.status();
  const auto is_target = [&](const cowprof_task& task) { return static_cast<pid_t>(task.process.pid) == target; };
  const auto root = std::find_if(tasks->begin(), tasks->end(), is_target);
  if (root == tasks->end()) return absl::NotFoundError(absl::StrCat("no process ", target));
  target_ = root->process;
  Insert(target_, Key{}, root->comm);
  // The list is older than the target's row: a second one sees what was forked in between, or the probe did.
  tasks = ListTasks();
  if (!tasks.ok()) return tasks.status();
  FollowDescendants(*tasks, target_);
  if (absl::Status status = FollowUnseenForks(); !status.ok()) return status;
  skeleton_.bss->scanning = 0;
  if (absl::Status status = DropTheDead(); !status.ok()) return status;
  return inserted_.contains(IdOf(target_)) ? absl::OkStatus() : absl::NotFoundError("it has just ended");
}

// One that ended between the look at the tree and its row's insertion: the exit probe did not know it.
absl::Status FollowedTree::DropTheDead() {
  const absl::StatusOr<std::vector<cowprof_task>> tasks = ListTasks();
  if (!tasks.ok()) return tasks.status();
  absl::flat_hash_set<ProcessId> living;
  for (const cowprof_task& task : *tasks) living.insert(IdOf(task.process));
  const int map = bpf_map__fd(skeleton_.maps.processes);
  for (const ProcessId& id : std::vector<ProcessId>(inserted_.begin(), inserted_.end())) {
    const Key key = {static_cast<unsigned>(id.pid), 0, id.start_ns};
    Row row;
    if (living.contains(id) || bpf_map_lookup_elem(map, &key, &row) != 0 || row.exited_ns != 0) continue;
    bpf_map_delete_elem(map, &key);
    inserted_.erase(id);
  }
  return absl::OkStatus();
}

}  // namespace cowprof
