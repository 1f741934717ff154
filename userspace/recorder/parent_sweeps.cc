// Reads a parent again when its children have copied enough.
#include "recorder/parent_sweeps.h"

#include <algorithm>

namespace cowprof {
namespace {

constexpr SweepAllowance kAllowance = {
    .interval = absl::Milliseconds(200), .share = 0.01, .long_share = 0.005, .last = absl::ZeroDuration()};
// Copies that are worth a look: one in so many pages of the parent, and at least so many.
constexpr uint64_t kOneIn = 100, kLeast = 256;

}  // namespace

ParentSweeps::ParentSweeps(ProcFs proc, uint64_t page_bytes, uint64_t t0_ns)
    : sweep_(std::move(proc), page_bytes, t0_ns), pace_(kAllowance) {}

// The outermost living process of each address space that others have, too.
absl::flat_hash_map<const LivingProcess*, ParentSweeps::Children> ParentSweeps::FindParents(const Processes& processes,
                                                                                            const Pull& pull) const {
  absl::flat_hash_map<int, const LivingProcess*> outermost;  // by space
  absl::flat_hash_map<const LivingProcess*, Children> parents;
  for (const LivingProcess* process : processes.by_index()) {
    const auto [found, first] = outermost.emplace(process->space, process);
    if (first) continue;
    Children& children = parents[found->second];
    const auto counts = pull.counts.find(process->serial);
    if (counts != pull.counts.end()) children.copies += counts->second.copies.value_or(0);
    children.serials += process->serial;
    ++children.count;
  }
  return parents;
}

bool ParentSweeps::IsDue(uint32_t serial, const Children& now) const {
  const auto known = states_.find(serial);
  if (known == states_.end()) return true;
  const Children& then = known->second.swept;
  if (now.serials != then.serials || now.count != then.count) return true;
  return now.copies - then.copies >= std::max(kLeast, known->second.pages / kOneIn);
}

void ParentSweeps::Plan(const Processes& processes, const Pull& pull, const PullRequest& tick, const SampleRows& rows,
                        Rollups* rollups) {
  auto parents = FindParents(processes, pull);
  // One whose last child is gone is read once more.
  for (const auto& [serial, state] : states_) {
    const LivingProcess* parent = processes.Find(serial);
    if (state.swept.count > 0 && parent != nullptr) parents.try_emplace(parent);
  }
  absl::erase_if(parents, [&](const auto& one) {
    const auto& [parent, children] = one;
    if (!IsDue(parent->serial, children)) return true;
    ProcessSample* row = rows.Find(parent->index);
    if (row == nullptr || !row->sweep || row->sweep->begin < tick.t) return false;
    states_[parent->serial].swept = children;
    Swept(*parent, tick.t, rollups, row);
    return true;
  });
  if (parents.empty() || !pace_.BeginRound(tick.t, sweep_.cost())) return;
  for (const auto& [parent, children] : parents) {
    states_[parent->serial].swept = children;
    sweep_.Add({.serial = parent->serial, .process = parent->id, .full = true, .has_children = children.count > 0});
  }
}

void ParentSweeps::Swept(const LivingProcess& parent, absl::Duration t, Rollups* rollups, ProcessSample* row) {
  states_[parent.serial].pages = row->sweep->private_pages + row->sweep->shared_pages;
  rollups->ReadNow(parent, t, row);
}

void ParentSweeps::Run(const Processes& processes, const Pull& pull, const PullRequest& tick, Rollups* rollups,
                       Sample* sample) {
  if (tick.last) return;  // all are swept
  const SampleRows rows(sample);
  if (sweep_.idle()) Plan(processes, pull, tick, rows, rollups);
  for (const FinishedSweep& sweep : sweep_.Run(pace_.Budget(tick.interval, sweep_.cost(), /*last=*/false))) {
    const LivingProcess* parent = processes.Find(sweep.serial);
    ProcessSample* row = parent == nullptr ? nullptr : rows.Find(parent->index);
    if (row == nullptr) continue;
    row->sweep = sweep.figures;
    Swept(*parent, tick.t, rollups, row);
  }
}

void ParentSweeps::Forget(uint32_t serial) {
  sweep_.Forget(serial);
  states_.erase(serial);
}

}  // namespace cowprof
