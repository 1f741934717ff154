#include "sink/metrics/metrics_tally.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/facts/ended_aggregate.h"
#include "model/facts/roles.h"
#include "model/judge/post_mortem.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

std::string ExitCauseOf(const ProcessModel& process, const RunModel& model) {
  const PostMortem end = PostMortemOf(process, model);
  if (!end.cause.empty()) return end.cause;
  if (process.oom_victim) return "oom";
  if (!process.exit) return "unknown";
  return !end.badly ? "done" : process.exit->signaled ? "signal" : "exit-status";
}

// It was not looked at yet, so its number in the recording gives way to the worker_ids of others.
bool MayBecomeLoader(const ProcessModel& process) {
  return !process.loader && (process.duty.duty == Duty::kUnknown || process.duty.duty == Duty::kLoader);
}

}  // namespace

void MetricsTally::Append(const Sample& sample, const std::vector<Alert>& raised, const RunModel& model) {
  CountEnds(sample, model);
  for (const Alert& alert : raised) {
    if (!alert.over) ++alerts_[{alert.rule == AlertRule::kHang ? "" : NameOf(alert.kind), NameOf(alert.rule)}];
  }
}

void MetricsTally::CountEnds(const Sample& sample, const RunModel& model) {
  for (const Event& event : sample.events) {
    const ProcessModel* process = event.Is<ProcessExited>() ? model.Find(event.index) : nullptr;
    if (process == nullptr || !process->ended) continue;
    oom_kills_ += process->oom_victim;
    if (!process->is_worker()) continue;
    ++exits_[ExitCauseOf(*process, model)];
    if (!process->peak_private_bytes) continue;
    size_t bucket = 0;
    while (bucket + 1 < kPeakBuckets && *process->peak_private_bytes > uint64_t{1} << (20 + 2 * bucket)) ++bucket;
    ++peaks_[bucket];
    peak_sum_ += *process->peak_private_bytes;
  }
}

void MetricsTally::NameWorkers(const RunModel& model) {
  const std::map<int, WorkerName> before = std::exchange(workers_, {});
  struct Wish {
    int order, index;
    WorkerName name;
  };
  std::vector<Wish> wishes;
  for (const ProcessModel& process : model.processes) {
    if (!process.is_worker() || process.ended) continue;
    const auto found = before.find(process.index);
    if (found == before.end() && wishes.size() >= kMostWorkersListed) continue;
    const RankFacts* facts = RankOf(process, model);
    const std::string rank = facts != nullptr && facts->rank ? absl::StrCat(*facts->rank) : "";
    const std::string number = process.loader          ? absl::StrCat(process.loader->worker_id)
                               : found != before.end() ? found->second.number
                                                       : "";
    const bool same = found != before.end() && found->second.rank == rank && found->second.number == number;
    const int order = MayBecomeLoader(process) ? 2 : same ? 0 : 1;
    wishes.push_back({order, process.index, {rank, number, same ? found->second.worker : number}});
  }
  std::stable_sort(wishes.begin(), wishes.end(), [](const Wish& a, const Wish& b) { return a.order < b.order; });
  std::set<std::pair<std::string, std::string>> taken, wished;
  for (const Wish& wish : wishes) wished.emplace(wish.name.rank, wish.name.worker);
  for (auto& [order, index, name] : wishes) {
    if (workers_.size() == kMostWorkersListed) break;
    // A pool may replace its workers all day: what continues the series of those that ended are their numbers.
    for (int i = 0; name.number.empty(); ++i) {
      if (wished.emplace(name.rank, absl::StrCat(i)).second) name.number = name.worker = absl::StrCat(i);
    }
    for (int i = 1; !taken.emplace(name.rank, name.worker).second; ++i) name.worker = absl::StrCat(name.number, ".", i);
    workers_.emplace(index, std::move(name));
  }
}

void MetricsTally::Update(const RunModel& model, const Totals& workers) {
  NameWorkers(model);
  uint64_t started = 0;
  Count fresh;
  ForEachRow(model, [&](const ProcessModel& process) {
    if (!process.is_worker()) return;
    started += process.stands_for;
    if (const Count pages = process.counts.zero_fills()) fresh = fresh.value_or(0) + *pages;
  });
  starts_ = std::max(starts_, started);
  new_pages_ = std::max(new_pages_, fresh);
  if (workers.copies_known) copies_ = std::max(copies_, Count(workers.copies));
  if (!workers.causes_known) return;
  CauseCounts& causes = causes_ ? *causes_ : causes_.emplace();
  // A copy of which another cause is found later stays where it was: together they are never more than all copies. What
  // is copied later is shared among the causes that rise then.
  const CauseCounts before = std::exchange(causes_then_, workers.causes);
  CauseCounts rises = {};
  for (size_t i = 0; i < causes.size(); ++i) rises[i] = SaturatingSubtract(workers.causes[i], before[i]);
  uint64_t all = Sum(rises), left = std::min(all, SaturatingSubtract(copies_.value_or(UINT64_MAX), Sum(causes)));
  for (size_t i = 0; i < causes.size(); ++i) {
    const uint64_t more = all == 0 ? 0 : std::min(left, static_cast<uint64_t>(1.0 * rises[i] * left / all));
    causes[i] += more;
    left -= more;
    all -= rises[i];
  }
}

}  // namespace cowprof
