// Numbers processes in the order in which they are first seen.
#include "recorder/processes.h"

#include <algorithm>

namespace cowprof {
bool Processes::Inherits(const FollowedProcess& process, const LivingProcess* parent) const {
  if (parent == nullptr || process.origin == Origin::kTarget || process.vforked) return false;
  if (process.origin == Origin::kForked) return true;
  const absl::StatusOr<ProcStat> stat = proc_.ReadStat(process.id.pid);
  return stat.ok() && stat->has_not_execed();
}

bool Processes::Add(const FollowedProcess& process) {
  if (living_.contains(process.id)) return false;
  const LivingProcess* parent = Find(process.parent);
  LivingProcess added = {.index = next_index_++,
                         .serial = process.serial,
                         .id = process.id,
                         .parent = process.parent,
                         .origin = process.origin};
  added.space = Inherits(process, parent) ? parent->space : added.index;
  if (added.index == 0) target_ = process.id.pid;
  ++members_[added.space];
  ids_[process.serial] = process.id;
  living_.emplace(process.id, added);
  return true;
}

void Processes::Leave(int space) {
  const auto members = members_.find(space);
  if (--members->second == 0) members_.erase(members);
}

void Processes::MoveToOwnSpace(LivingProcess* process) {
  Leave(process->space);
  process->space = process->index;
  ++members_[process->space];
}

void Processes::Exec(const ProcessId& id) {
  const auto process = living_.find(id);
  if (process == living_.end()) return;
  const int index = process->second.index;
  MoveToOwnSpace(&process->second);
  // What it forked before keeps the old one.
  for (auto& [other, living] : living_) {
    if (living.space == index) MoveToOwnSpace(&living);
  }
}

void Processes::End(const ProcessId& id) {
  const auto process = living_.find(id);
  if (process == living_.end()) return;
  if (process->second.index == 0) target_alive_ = false;
  Leave(process->second.space);
  ids_.erase(process->second.serial);
  living_.erase(process);
}

const LivingProcess* Processes::Find(const ProcessId& id) const {
  const auto process = living_.find(id);
  return process == living_.end() ? nullptr : &process->second;
}

const LivingProcess* Processes::Find(uint32_t serial) const {
  const auto id = ids_.find(serial);
  return id == ids_.end() ? nullptr : Find(id->second);
}

const LivingProcess* Processes::FindSeen(const ProcessId& id) const {
  if (id.start_ns != 0) return Find(id);
  const auto process =
      std::find_if(living_.begin(), living_.end(), [&](const auto& entry) { return entry.first.pid == id.pid; });
  return process == living_.end() ? nullptr : &process->second;
}

const LivingProcess* Processes::ParentInSpace(const LivingProcess& process) const {
  const LivingProcess* parent = Find(process.parent);
  return parent != nullptr && parent->space == process.space ? parent : nullptr;
}

bool Processes::SomeHaveEnded() const {
  return std::any_of(living_.begin(), living_.end(), [&](const auto& entry) {
    const absl::StatusOr<ProcStat> stat = proc_.ReadStat(entry.first.pid);
    return !stat.ok() || stat->state == 'Z' || stat->start_ticks != entry.first.start_ticks();
  });
}

std::vector<const LivingProcess*> Processes::by_index() const {
  std::vector<const LivingProcess*> processes;
  for (const auto& [id, process] : living_) processes.push_back(&process);
  std::sort(processes.begin(), processes.end(),
            [](const LivingProcess* a, const LivingProcess* b) { return a->index < b->index; });
  return processes;
}

}  // namespace cowprof
