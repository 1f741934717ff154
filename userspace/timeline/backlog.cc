// Joins samples, oldest first. Of rows that are cumulative, a later one takes the place of an earlier one.
#include "timeline/backlog.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "model/judge/run.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// ---- Dropping ----

// Whether an event may be dropped: kLife tells which processes there are, and a reader numbers them by it.
enum class Kind { kLife, kFact, kRemark };

Kind KindOf(const Event& event) {
  return std::visit(Overloaded{
                        [](const ProcessStarted&) { return Kind::kLife; },
                        [](const ProcessExeced&) { return Kind::kLife; },
                        [](const ProcessExited&) { return Kind::kLife; },
                        [](const OomVictim&) { return Kind::kLife; },
                        [](const PythonFound&) { return Kind::kFact; },
                        [](const DutyFound&) { return Kind::kFact; },
                        [](const RankFound&) { return Kind::kFact; },
                        [](const StartMethodsSeen&) { return Kind::kFact; },
                        [](const StartFailed&) { return Kind::kFact; },
                        [](const LastErrorSeen&) { return Kind::kFact; },
                        [](const ForkHazardSeen&) { return Kind::kFact; },
                        [](const HangsSeen&) { return Kind::kFact; },
                        [](const SignalSent&) { return Kind::kRemark; },
                        [](const SignalDelivered&) { return Kind::kRemark; },
                        [](const Note&) { return Kind::kRemark; },
                    },
                    event.what);
}

// Drops the oldest events of a kind until `most` are left; returns how many.
uint64_t DropEvents(Kind kind, size_t most, std::vector<Event>* events) {
  const auto is_kind = [kind](const Event& event) { return KindOf(event) == kind; };
  const auto of_kind = static_cast<uint64_t>(std::count_if(events->begin(), events->end(), is_kind));
  uint64_t surplus = SaturatingSubtract(of_kind, most);
  const uint64_t dropped = surplus;
  if (surplus > 0)
    std::erase_if(*events, [&](const Event& event) { return surplus > 0 && is_kind(event) && surplus-- > 0; });
  return dropped;
}

// Drops the oldest rows until `most` are left; returns the sum of their losses.
template <typename Row, typename LossOf>
uint64_t DropRows(size_t most, const LossOf& loss_of, std::vector<Row>* rows) {
  const auto kept = rows->begin() + SaturatingSubtract(rows->size(), most);
  uint64_t lost = 0;
  for (auto row = rows->begin(); row != kept; ++row) lost += loss_of(*row);
  rows->erase(rows->begin(), kept);
  return lost;
}

// Keeps as many as a run does that reads them, and the latest of each rule and limit, which says whether it stands.
void DropAlerts(std::vector<Alert>* alerts) {
  size_t surplus = SaturatingSubtract(alerts->size(), kMostAlerts);
  if (surplus == 0) return;
  std::set<std::pair<AlertRule, LimitKey>> later;
  std::vector<Alert> kept;
  for (size_t i = alerts->size(); i-- > 0;) {
    Alert& alert = (*alerts)[i];
    const bool is_latest = later.emplace(alert.rule, alert.limit_key()).second;
    if (is_latest || i >= surplus) kept.push_back(std::move(alert));
  }
  std::reverse(kept.begin(), kept.end());
  *alerts = std::move(kept);
}

// ---- Joining ----

template <typename T>
void Append(const std::vector<T>& later, std::vector<T>* list) {
  list->insert(list->end(), later.begin(), later.end());
}

// Of rows with the same key only the latest counts.
template <typename Row, typename KeyOf>
void Replace(const std::vector<Row>& later, const KeyOf& key_of, std::vector<Row>* rows) {
  absl::flat_hash_set<decltype(key_of(later.front()))> replaced;
  for (const Row& row : later) replaced.insert(key_of(row));
  if (!replaced.empty()) std::erase_if(*rows, [&](const Row& row) { return replaced.contains(key_of(row)); });
  Append(later, rows);
}

void Join(const Sample& latest, Sample* sample) {
  sample->t = latest.t;
  Append(latest.events, &sample->events);
  Append(latest.processes, &sample->processes);
  sample->limits = latest.limits;
  if (latest.shm) sample->shm = latest.shm;
  Append(latest.new_frames, &sample->new_frames);
  Append(latest.new_copy_sites, &sample->new_copy_sites);
  Append(latest.new_growth_sites, &sample->new_growth_sites);
  Append(latest.new_regions, &sample->new_regions);
  Replace(
      latest.copy_sites, [](const auto& row) { return std::pair(row.index, row.copy_site); }, &sample->copy_sites);
  Replace(
      latest.growth, [](const auto& row) { return std::pair(row.index, row.site); }, &sample->growth);
  Replace(
      latest.regions, [](const auto& row) { return std::pair(row.index, row.region); }, &sample->regions);
  Replace(
      latest.grown_regions, [](const auto& row) { return row.region; }, &sample->grown_regions);
  Replace(
      latest.heads, [](const auto& row) { return row.region; }, &sample->heads);
  Append(latest.pages, &sample->pages);
  if (latest.cause_evidence) sample->cause_evidence = latest.cause_evidence;
  sample->losses = latest.losses;
}

absl::flat_hash_set<int> EndedIn(const Sample& sample) {
  absl::flat_hash_set<int> ended;
  for (const Event& event : sample.events) {
    if (event.Is<ProcessExited>()) ended.insert(event.index);
  }
  return ended;
}

// Of processes that live, the next sample has a row.
void DropLiving(Sample* sample) {
  const absl::flat_hash_set<int> ended = EndedIn(*sample);
  std::erase_if(sample->processes, [&](const ProcessSample& row) { return !ended.contains(row.index); });
}

}  // namespace

void Backlog::Drop() {
  DropLiving(&sample_);
  dropped_.events_dropped += DropEvents(Kind::kFact, kMostFacts, &sample_.events);
  dropped_.events_dropped += DropEvents(Kind::kRemark, kMostRemarks, &sample_.events);
  dropped_.pages_dropped += DropRows(
      kMostRuns, [](const PageRun& run) { return run.pages; }, &sample_.pages);
  dropped_.regions_dropped += DropRows(
      kMostRegionCounts, [](const RegionCount&) { return 1; }, &sample_.regions);
  DropAlerts(&alerts_);
}

void Backlog::Add(const Sample& latest, const std::vector<Alert>& raised) {
  if (std::exchange(empty_, false)) {
    sample_ = latest;
  } else {
    Drop();
    Join(latest, &sample_);
  }
  Append(raised, &alerts_);
  sample_.losses.events_dropped += dropped_.events_dropped;
  sample_.losses.pages_dropped += dropped_.pages_dropped;
  sample_.losses.regions_dropped += dropped_.regions_dropped;
}

bool Backlog::is_large() const {
  const absl::flat_hash_set<int> ended = EndedIn(sample_);
  const auto has_ended = [&](const auto& row) { return ended.contains(row.index); };
  const auto count = [&](const auto& rows) { return std::count_if(rows.begin(), rows.end(), has_ended); };
  const auto rows = count(sample_.processes) + count(sample_.copy_sites) + count(sample_.growth);
  return ended.size() + static_cast<size_t>(rows) >= kManyRows;
}

void Backlog::Clear() {
  sample_ = {};
  alerts_.clear();
  empty_ = true;
}

}  // namespace cowprof
