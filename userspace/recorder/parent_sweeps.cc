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

void ParentSweeps::Plan(const Processes& processes, const Pull& pull, const PullRequest& tick) {
  auto parents = FindParents(processes, pull);
  // One whose last child is gone is read once more.
  for (const auto& [serial, state] : states_) {
    const LivingProcess* parent = processes.Find(serial);
    if (state.swept.count > 0 && parent != nullptr) parents.try_emplace(parent);
  }
  const auto is_due = [&](const auto& one) { return IsDue(one.first->serial, one.second); };
  if (std::none_of(parents.begin(), parents.end(), is_due) || !pace_.BeginRound(tick.t, sweep_.cost())) return;
  for (const auto& [parent, children] : parents) {
    if (!IsDue(parent->serial, children)) continue;
    states_[parent->serial].swept = children;
    sweep_.Add({.serial = parent->serial, .process = parent->id, .full = true, .has_children = children.count > 0});
  }
}

void ParentSweeps::Run(const Processes& processes, const Pull& pull, const PullRequest& tick, Rollups* rollups,
                       Sample* sample) {
  if (tick.last) return;  // all are swept
  if (sweep_.idle()) Plan(processes, pull, tick);
  for (const FinishedSweep& sweep : sweep_.Run(pace_.Budget(tick.interval, sweep_.cost(), /*last=*/false))) {
    states_[sweep.serial].pages = sweep.figures.private_pages + sweep.figures.shared_pages;
    const LivingProcess* parent = processes.Find(sweep.serial);
    const auto row = std::find_if(sample->processes.begin(), sample->processes.end(), [&](const ProcessSample& one) {
      return parent != nullptr && one.index == parent->index;
    });
    if (row == sample->processes.end()) continue;
    row->sweep = sweep.figures;
    rollups->ReadNow(*parent, tick.t, &*row);
  }
}

void ParentSweeps::Forget(uint32_t serial) {
  sweep_.Forget(serial);
  states_.erase(serial);
}

}  // namespace cowprof
