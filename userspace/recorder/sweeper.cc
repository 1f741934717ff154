// The sweeps of the collector: which process is due, what may be spent on it, and where the findings go. See
// collector.h.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "collector.h"
#include "model/kill_evidence.h"
#include "python/process_memory.h"

namespace cowprof {
namespace {

// Shares of one CPU: while a round of the sweep runs, and of it in the long run.
constexpr double kSweepShare = 0.03, kLongSweepShare = 0.008;
// The same where it alone counts copies; and of reading what was copied.
constexpr double kCountingShare = 0.05, kLongCountingShare = 0.02, kBytesShare = 0.02;

// By the clock: a report is due two seconds after SIGINT. What is not reached stands as it was last swept.
constexpr absl::Duration kLongestLastSweep = absl::Seconds(1);

constexpr absl::Duration kFirstSweeps = absl::Milliseconds(200);  // CPU time that they may take at once

// A kill is counted before the process is gone; between the two there may be a look at the limits.
constexpr absl::Duration kKillWindow = absl::Seconds(2);

}  // namespace

// Every sweep_interval. All of the target: its pages become its own without a fault when a worker ends. Of the others
// the regions in which they got pages of their own, if they did so since the last time; once in a while all of them.
void Collector::PlanSweeps(absl::Duration t, bool last) {
  const bool counting = faults_->counts_by_sweep();
  const bool round = t >= next_sweep_ || (counting && last);
  if (!sweep_.idle() || !(round || counting)) return;
  if (round) {
    // One that was costly makes the next one wait longer.
    const absl::Duration cost = sweep_.cost() - std::exchange(sweep_cost_before_, sweep_.cost());
    next_sweep_ = t + std::max(options_.sweep_interval, cost / (counting ? kLongCountingShare : kLongSweepShare));
  }
  absl::flat_hash_map<uint32_t, std::vector<uint64_t>> touched;
  if (absl::StatusOr<std::vector<TouchedRegion>> regions = faults_->PullRegions(); regions.ok()) {
    for (const TouchedRegion& region : *regions) touched[region.serial].push_back(region.address);
  }
  std::vector<Tracked*> in_order;
  for (auto& [id, tracked] : living_) in_order.push_back(&tracked);
  std::sort(in_order.begin(), in_order.end(), [](const Tracked* a, const Tracked* b) { return a->index < b->index; });
  for (Tracked* tracked : in_order) {
    // Between rounds only who is new: what it inherited is known as long as it has not copied it.
    if (!round && (tracked->index == 0 || t < tracked->next_full_sweep)) continue;
    if (std::optional<SweepJob> job = PlanSweep(tracked, t, std::move(touched[tracked->serial])))
      sweep_.Add(*std::move(job));
  }
}

std::optional<SweepJob> Collector::PlanSweep(Tracked* tracked, absl::Duration t, std::vector<uint64_t> touched) {
  SweepJob job = {.index = tracked->index,
                  .process = tracked->id,
                  .full = tracked->index == 0 || t >= tracked->next_full_sweep,
                  .sample_diverged = options_.verify ? kMaxDivergedSample : 0,
                  .sharing = faults_->counts_by_sweep()};
  // Who runs another program shares nothing with who forked it.
  const auto parent = living_.find(tracked->parent);
  const bool inherits = parent != living_.end() && parent->second.space == tracked->space;
  if (inherits) job.peer = tracked->parent;
  job.has_children = absl::c_any_of(living_, [&](const auto& other) {
    return other.second.parent == tracked->id && other.second.space == tracked->space;
  });
  uint64_t pages = tracked->own_pages;
  // What the parent copies makes pages its workers' own, too.
  if (job.sharing && inherits) pages += parent->second.own_pages;
  if (!job.full && pages == tracked->swept_own_pages) return std::nullopt;
  job.full |= job.sharing;  // nobody says where it wrote
  if (job.full) {
    tracked->next_full_sweep = t + options_.full_sweep_interval;
  } else {
    job.regions = std::move(touched);
    std::sort(job.regions.begin(), job.regions.end());
  }
  tracked->swept_own_pages = pages;
  job.ranges = RangesOf(*tracked, t);
  return job;
}

std::shared_ptr<const std::vector<AddressRange>> Collector::RangesOf(const Tracked& tracked, absl::Duration t) {
  const std::shared_ptr<Program> program = attribution_.ProgramOf(tracked.id);
  const uint64_t pool_bytes = program != nullptr ? program->interpreter().pool_bytes : 0;
  // Through the target where it can be: its mappings are what all of its workers inherited.
  return spaces_.RangesOf(tracked.space, tracked.space == 0 ? target_ : tracked.id.pid, pool_bytes, t);
}

// The first looks at all memory are worth some haste: until they are done, private memory is known from its growth
// only.
absl::Duration Collector::SweepBudget(absl::Duration interval, bool last) const {
  const bool counting = faults_->counts_by_sweep();
  if (last) return absl::Milliseconds(counting ? 500 : 100);
  const absl::Duration hasty = std::clamp(kFirstSweeps - sweep_.cost(), absl::ZeroDuration(), absl::Milliseconds(50));
  return std::max(interval * (counting ? kCountingShare : kSweepShare), hasty);
}

void Collector::RunSweep(absl::Duration interval, bool last, Pull* pull, Sample* sample) {
  copied_bytes_.AddAllowance(sample->t, kBytesShare);
  const absl::Duration longest = last ? kLongestLastSweep : absl::InfiniteDuration();
  for (const FinishedSweep& finished : sweep_.Run(SweepBudget(interval, last), longest)) {
    const auto row = std::find_if(sample->processes.begin(), sample->processes.end(),
                                  [&](const ProcessSample& process) { return process.index == finished.index; });
    if (row == sample->processes.end()) continue;
    row->sweep = finished.figures;
    const auto tracked = std::find_if(living_.begin(), living_.end(),
                                      [&](const auto& entry) { return entry.second.index == finished.index; });
    if (tracked == living_.end()) continue;
    spaces_.Add(tracked->second.space, finished);
    if (faults_->counts_by_sweep()) Count(tracked->second, finished, last);
    if (!finished.diverged_sample.empty()) row->verify = Verify(tracked->second, finished);
  }
  if (!faults_->counts_by_sweep()) return;
  faults_->AddSwept(pull);
  for (const FollowedProcess& process : pull->processes) {
    const auto row = absl::c_find_if(
        sample->processes, [&](const ProcessSample& one) { return one.index == living_.at(process.id).index; });
    if (row != sample->processes.end()) row->counts = process.counts;
  }
}

// Where the page map is all there is: what a sweep found, and what the bytes say of it.
void Collector::Count(const Tracked& tracked, const FinishedSweep& sweep, bool last) {
  const std::vector<uint64_t> copied = faults_->TakeSweep(tracked.serial, sweep);
  const std::shared_ptr<Program> program = options_.causes ? attribution_.ProgramOf(tracked.id) : nullptr;
  if (program != nullptr) copied_bytes_.NoteCollections(tracked.id, *program);
  std::optional<std::vector<ExplainedPage>> explained = std::vector<ExplainedPage>();
  if (program != nullptr && living_.contains(tracked.parent))
    explained = copied_bytes_.Read(tracked.id, tracked.parent, *program, copied);
  if (!explained && last) explained.emplace();
  if (explained) faults_->Explain(tracked.serial, *explained);
}

// Compares a sample of the pages that the sweep found to have left the parent's; nullopt if that can't be done.
std::optional<VerifyFigures> Collector::Verify(const Tracked& worker, const FinishedSweep& sweep) {
  const std::shared_ptr<Program> program = attribution_.ProgramOf(worker.id);
  const std::optional<HeadLayout> heads = program == nullptr ? std::nullopt : program->Heads();
  if (!heads || !living_.contains(worker.parent)) return std::nullopt;
  program->memory().Prefer(worker.id);
  const PresentMemory own(worker.id.pid, proc_), parent(worker.parent.pid, proc_);
  verifier_.Offer(worker.index, sweep.diverged_sample);
  verifier_.Run({worker.index, own, parent, *heads, program->Types()}, VerifyBudget());
  return verifier_.FiguresOf(worker.index);
}

// The cgroup's own count is all that tells of the OOM killer without probes.
void Collector::AddOomVictims(Sample* sample) {
  const std::vector<LimitSample> now = target_alive_ ? sample->limits : limits_.ReadLastCgroups();
  if (limits_before_.empty()) limits_before_ = limits_since_ = now;
  std::vector<Event> victims = OomVictims(limits_before_, now, sample->events);
  sample->events.insert(sample->events.end(), victims.begin(), victims.end());
  absl::c_stable_sort(sample->events, [](const Event& a, const Event& b) { return a.t < b.t; });
  if (!victims.empty()) limits_since_ = now;  // these kills are told
  if (!victims.empty() || sample->t >= limits_since_at_ + kKillWindow) {
    limits_before_ = std::exchange(limits_since_, now);
    limits_since_at_ = sample->t;
  }
}

}  // namespace cowprof
