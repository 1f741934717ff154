// Plans rounds of sweeps by the regions that the probes saw touched.
#include "recorder/sweeper.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr absl::Duration kFullInterval = absl::Seconds(60);   // at most, between sweeps of all of a process
constexpr uint64_t kOneInIsNew = 200;                         // pages; less is nothing new
constexpr uint64_t kLeastFreed = 1024;                        // pages; batches come and go
constexpr uint64_t kMuchFreed = 8192, kOneInIsMuch = 8;       // worth a sweep by itself; the same of swap-ins
constexpr uint64_t kLeastMissed = 4096, kOneInIsMissed = 32;  // pages of RssAnon; it is not exact, nor of the same time

// A sample of the pages is asked for where they are to be compared, and may cost more.
SweepAllowance AllowanceOf(const SweeperOptions& options) {
  return {.interval = options.interval,
          .share = 0.03,
          .long_share = options.sample_diverged > 0 ? 0.008 : 0.002,
          .last = absl::Milliseconds(100)};
}

uint64_t OwnPagesOf(const FaultCounts& counts) {
  return counts.copies.value_or(0) + counts.zero_fills().value_or(0) + counts.file_copies.value_or(0);
}

}  // namespace

Sweeper::Sweeper(ProcFs proc, const SweeperOptions& options, FaultSource* faults)
    : options_(options),
      faults_(faults),
      sweep_(std::move(proc), options.page_bytes, options.t0_ns),
      pace_(AllowanceOf(options)) {}

std::vector<FinishedSweep> Sweeper::Run(const Processes& processes, const Pull& pull, const GupCopies& gup,
                                        const PullRequest& tick, absl::Span<const ProcessSample> rows) {
  absl::flat_hash_map<int, const ProcFigures*> figures;  // by index
  for (const ProcessSample& row : rows) {
    if (row.proc.anon_pages) figures[row.index] = &row.proc;
  }
  for (const LivingProcess* process : processes.by_index()) {
    // A process that was there before the probes may have copied long ago: only a full sweep shows that.
    const bool seen_forked = process->origin == Origin::kForked;
    const auto [known, is_new] =
        states_.try_emplace(process->serial, State{.next_full = seen_forked ? tick.t + kFullInterval : tick.t});
    State& state = known->second;
    if (is_new && seen_forked) state.most_shared = MostInherited(processes.ParentInSpace(*process));
    state.is_target = process->index == 0;  // Exec() may have been first: a program that cowprof starts is held before
    if (const auto found = figures.find(process->index); found != figures.end()) {
      state.anon = *found->second->anon_pages;
      state.swap = found->second->swap_pages.value_or(0);
    }
    state.most_anon = std::max(state.most_anon, state.anon);
    const LivingProcess* const parent = state.is_target ? nullptr : processes.ParentInSpace(*process);
    const auto of_parent = parent == nullptr ? states_.end() : states_.find(parent->serial);
    state.parents = of_parent == states_.end() ? 0 : of_parent->second.anon;
    if (is_new) state.swept_parents = state.parents;
  }
  // Which of them lost regions is not known. Those would be missed by every later sweep of single regions, too.
  if (pull.losses.regions_dropped > regions_dropped_) {
    for (auto& [serial, state] : states_) state.lost_regions = true;
  }
  regions_dropped_ = pull.losses.regions_dropped;
  if (sweep_.idle() && pace_.BeginRound(tick.t, sweep_.cost(), tick.last)) PlanRound(processes, pull, gup, tick);
  std::vector<FinishedSweep> sweeps =
      sweep_.Run(pace_.Budget(tick.interval, sweep_.cost(), tick.last), SweepPace::Longest(tick.last));
  NoteFound(sweeps, tick.t);
  // What counters and RssAnon tell without these is nearer to the truth.
  std::erase_if(sweeps, [&](const FinishedSweep& sweep) { return states_.at(sweep.serial).missed; });
  return sweeps;
}

// The pages that its parent has or had, if it may have inherited them; nullopt: not known.
Count Sweeper::MostInherited(const LivingProcess* parent) const {
  const auto found = parent == nullptr ? states_.end() : states_.find(parent->serial);
  if (found == states_.end() || found->second.most_anon == 0) return std::nullopt;
  return found->second.most_anon + found->second.swap;
}

// Where mremap(2) moves memory to, as when a large list grows, no fault tells of it: a sweep of single regions misses
// it. But what a process shares with others only gets less until it forks, and the rest of RssAnon is its own.
bool Sweeper::HasMissed(const SweepFigures& sweep, State* state) {
  const uint64_t held = state->anon + state->swap;
  if (sweep.full) {
    state->most_shared = SaturatingSubtract(std::max(held, state->planned_held), sweep.private_pages);
    return false;
  }
  if (!state->most_shared) return false;
  const uint64_t found = *state->most_shared + sweep.private_pages + sweep.swapped_pages;
  const uint64_t missed = SaturatingSubtract(std::min(held, state->planned_held), found);
  return missed > std::max(kLeastMissed, state->most_anon / kOneInIsMissed);
}

// From the second sweep on that finds nothing new, the next one waits twice as long, unless more is copied by then.
void Sweeper::NoteFound(absl::Span<const FinishedSweep> sweeps, absl::Duration t) {
  for (const FinishedSweep& sweep : sweeps) {
    State& state = states_.at(sweep.serial);
    state.missed = HasMissed(sweep.figures, &state);
    if (state.missed) continue;
    const uint64_t before = std::exchange(state.found, sweep.figures.private_pages);
    const uint64_t changed = std::max(before, state.found) - std::min(before, state.found);
    state.pages = state.found + (state.is_target ? sweep.figures.shared_pages : 0);
    const bool is_new = changed > state.pages / kOneInIsNew;
    state.gap = is_new ? absl::ZeroDuration() : std::clamp(2 * state.gap, options_.interval, kFullInterval);
    state.next = t + state.gap;
  }
}

// Whether pages of the target may have become its own without a fault, as when a worker ends or calls exec, or left it.
bool Sweeper::ChangedUnseen(const Family& family, const State& target) const {
  return family.count == 1 || family.count != swept_whole_.count || family.serials != swept_whole_.serials ||
         family.gup_faults >= swept_whole_.gup_faults + GupCopies::kLeast ||
         target.most_anon - target.anon > std::max(kLeastFreed, target.most_anon / kOneInIsNew);
}

// Sweeps the regions in which a process got pages of its own, if it got some since the last time; of the target, those
// of all that share its pages. All of it where the probes saw not all that changes: after many faults of GUP, where the
// table of regions was full, of one that is or was a parent, and of one that freed much, moved much or swapped much in;
// of the target see ChangedUnseen(). And once in a while.
void Sweeper::PlanRound(const Processes& processes, const Pull& pull, const GupCopies& gup, const PullRequest& tick) {
  absl::flat_hash_map<uint32_t, std::vector<uint64_t>> touched;
  if (absl::StatusOr<std::vector<TouchedRegion>> regions = faults_->PullRegions(); regions.ok()) {
    for (const TouchedRegion& region : *regions) touched[region.serial].push_back(region.address);
  }
  const std::vector<const LivingProcess*> living = processes.by_index();
  absl::flat_hash_set<const LivingProcess*> parents;
  for (const LivingProcess* process : living) {
    if (const LivingProcess* parent = processes.ParentInSpace(*process)) parents.insert(parent);
  }
  Family family;
  for (const LivingProcess* process : living) {
    if (process->space != 0) continue;
    ++family.count;
    family.serials += process->serial;
    family.gup_faults += gup.FaultsOf(process->serial);
    const std::vector<uint64_t>& regions = touched[process->serial];
    family.touched.insert(family.touched.end(), regions.begin(), regions.end());
  }
  uint64_t changes = living.size();
  for (const auto& [serial, counts] : pull.counts) changes += OwnPagesOf(counts);
  for (const LivingProcess* process : living) {
    const auto counts = pull.counts.find(process->serial);
    uint64_t own_pages = counts == pull.counts.end() ? 0 : OwnPagesOf(counts->second);
    State& state = states_.at(process->serial);
    if (counts != pull.counts.end()) state.swap_ins = counts->second.swap_ins.value_or(0);
    if (state.is_target) own_pages = changes;
    const bool has_children = parents.contains(process);
    state.was_parent |= has_children;
    std::optional<SweepJob> job =
        PlanSweep(*process, processes.ParentInSpace(*process), own_pages, gup.FaultsOf(process->serial),
                  state.is_target ? tick.last || ChangedUnseen(family, state) : state.was_parent, tick);
    if (!job) continue;
    job->has_children = state.was_parent = has_children;
    if (!job->full) {
      job->regions = std::move(state.is_target ? family.touched : touched[process->serial]);
      job->regions_as_of = tick.t;
    } else if (state.is_target) {
      swept_whole_ = {family.count, family.serials, family.gup_faults, {}};
    }
    sweep_.Add(*std::move(job));
  }
}

// Where GUP goes on, as when each buffer of a file is new memory, looks at it get rarer.
bool Sweeper::IsDueForGup(uint64_t gup_faults, const PullRequest& tick, State* state) const {
  if (gup_faults < state->gup_faults + GupCopies::kLeast || (tick.t < state->next_gup && !tick.last)) return false;
  state->gup_faults = gup_faults;
  state->gup_gap = std::clamp(2 * state->gup_gap, options_.interval, kFullInterval);
  state->next_gup = tick.t + state->gup_gap;
  return true;
}

// Memory that is given back raises no fault: what an earlier sweep found there would count on. What its parent gives
// back, or leaves as it ends, may have become its own. A page that comes back from swap may be copied in the same
// fault. Where much comes and goes, looks at it get rarer.
bool Sweeper::IsDueForUnseen(const PullRequest& tick, State* state) const {
  const uint64_t much = std::max(kMuchFreed, state->most_anon / kOneInIsMuch);
  const bool freed = state->most_anon - state->anon > much;
  const bool swapped = state->swap_ins - state->swept_swap_ins > much;
  const uint64_t left = SaturatingSubtract(state->swept_parents, state->parents);
  const bool alone = left > std::max(kLeastFreed, state->swept_parents / kOneInIsMuch);
  if ((!freed && !swapped && !alone && !state->missed) || (tick.t < state->next_unseen && !tick.last)) return false;
  state->unseen_gap = std::clamp(2 * state->unseen_gap, options_.interval, kFullInterval);
  state->next_unseen = tick.t + state->unseen_gap;
  return true;
}

std::optional<SweepJob> Sweeper::PlanSweep(const LivingProcess& process, const LivingProcess* parent,
                                           uint64_t own_pages, uint64_t gup_faults, bool whole,
                                           const PullRequest& tick) {
  State& state = states_.at(process.serial);
  const uint64_t gained = own_pages - state.swept_own_pages;
  const bool little = gained <= state.pages / kOneInIsNew;
  const bool skips = gained == 0 || (little && tick.t < state.next && !tick.last);
  const bool unseen = IsDueForUnseen(tick, &state);
  const bool full = IsDueForGup(gup_faults, tick, &state) || unseen || tick.t >= state.next_full;
  if (skips && !full) return std::nullopt;
  SweepJob job = {.serial = process.serial,
                  .process = process.id,
                  .full = full || whole || state.lost_regions,
                  .sample_diverged = options_.sample_diverged};
  if (parent != nullptr) job.peer = parent->id;
  if (job.full) {
    state.next_full = tick.t + kFullInterval;
    state.missed = false;
    state.most_anon = state.anon;
    state.swept_parents = std::min(state.swept_parents, state.parents);
    state.swept_swap_ins = state.swap_ins;
  }
  state.planned_held = state.anon + state.swap;
  state.swept_own_pages = own_pages;
  job.ranges = tick.reader.RangesOf(process.serial, tick.t);
  return job;
}

void Sweeper::Exec(uint32_t serial, absl::Duration t) {
  sweep_.Forget(serial);
  State& state = states_[serial];
  state.next_full = t;
  state.most_shared.reset();
}

void Sweeper::Forget(uint32_t serial) {
  sweep_.Forget(serial);
  states_.erase(serial);
}

}  // namespace cowprof
