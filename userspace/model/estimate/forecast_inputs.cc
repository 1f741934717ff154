#include "model/estimate/forecast_inputs.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "model/facts/ended_aggregate.h"
#include "model/facts/run_model.h"

namespace cowprof {
namespace {

constexpr uint64_t kLargeArenaBytes = 512 << 10;  // pymalloc's are 1 MiB from CPython 3.10 on, 256 KiB before
constexpr double kNoticeableEnd = 0.05;           // of what is in use outside the workers
// A training that validates after each epoch has generations of both kinds, in turn.
constexpr size_t kMostEarlier = 8;
constexpr double kAlike = 2;    // times as many workers: from there on they are of another loader or pool
constexpr double kForking = 2;  // seconds since the last fork of a worker; others may follow until then
// A generation that lives longer than an earlier one, by more than this factor and these seconds, is unlike it.
constexpr double kLonger = 1.5, kLeastLonger = 10;

std::vector<PageZone> ZonesOf(const RunModel& model, int space) {
  const uint64_t page_bytes = model.info.page_bytes;
  std::vector<PageZone> zones;
  for (auto next = model.regions_by_start.lower_bound({space, 0});
       next != model.regions_by_start.end() && next->first.first == space; ++next) {
    const Region& region = model.regions[next->second].region;
    const PagesKind kind = region.kind != RegionKind::kPymallocArena      ? PagesKind::kOther
                           : region.end - region.start < kLargeArenaBytes ? PagesKind::kSmallPool
                                                                          : PagesKind::kArena;
    PageZone zone = {region.start / page_bytes, region.end / page_bytes, kind};
    if (const auto found = model.heads.find(next->second); found != model.heads.end() && found->second.pages > 0) {
      const RegionHeads& heads = found->second;
      zone.headed = static_cast<double>(heads.with_heads) / heads.pages;
      zone.heads_each = static_cast<double>(heads.heads) / std::max<uint64_t>(heads.with_heads, 1);
    }
    // A region that has moved leaves its old entry behind.
    if (!zones.empty()) zones.back().end = std::min(zones.back().end, zone.first);
    if (zone.first < zone.end) zones.push_back(zone);
  }
  return zones;
}

// Returns nullopt unless it is known of all living workers of the address space and the same for all.
std::optional<bool> ArePersistent(const RunModel& model, int space) {
  std::optional<bool> persistent;
  bool alike = true;
  ForEachLately(model, [&](const ProcessModel& process) {
    if (process.ended || !process.is_worker() || process.space != space) return;
    alike &= process.persistent && (!persistent || *persistent == *process.persistent);
    persistent = process.persistent;
  });
  return alike ? persistent : std::nullopt;
}

// Drops the pools of address spaces that no living process has.
void ForgetPools(const RunModel& model, ForecastInputs* inputs) {
  if (inputs->pools.size() < 2) return;  // the target's
  std::set<int> living;
  ForEachLately(model, [&](const ProcessModel& process) {
    if (!process.ended) living.insert(process.space);
  });
  std::erase_if(inputs->pools, [&](const auto& pool) { return pool.first != 0 && !living.contains(pool.first); });
}

void RememberPages(const Sample& sample, const RunModel& model, ForecastInputs* inputs) {
  for (const PageRun& run : sample.pages) {
    const ProcessModel* process = model.Find(run.index);
    // The owner's own copies are different: it shares each page with all of its workers.
    if (process != nullptr && !process->ended && process->space != process->index)
      inputs->pools[process->space].Add(run.index, run.first_page, run.pages);
  }
  absl::flat_hash_set<int> left;
  for (const Event& event : sample.events) {
    if (event.Is<ProcessExited>() || event.Is<ProcessExeced>()) left.insert(event.index);
  }
  if (!left.empty()) {
    for (auto& [space, pool] : inputs->pools) pool.Forget(left);
    ForgetPools(model, inputs);
  }
  if (sample.pages.empty()) return;
  for (auto& [space, pool] : inputs->pools) {
    const std::optional<bool> persistent = ArePersistent(model, space);
    if (pool.IsDue(persistent)) pool.EndRecord(ZonesOf(model, space), persistent);
  }
}

// Whether they may be of the same loader or pool, as far as is known. `forking`: more workers may follow.
bool AreOfOneKind(const Generation& earlier, const Generation& now, bool forking) {
  const bool known = (earlier.of_loader || earlier.of_pool) && (now.of_loader || now.of_pool);
  if (known && !(earlier.of_loader && now.of_loader) && !(earlier.of_pool && now.of_pool)) return false;
  return now.workers < kAlike * earlier.workers && (forking || earlier.workers < kAlike * now.workers);
}

void CompareWithEarlier(double t, bool any_alive, ForecastInputs* inputs) {
  const Generation& now = inputs->generation;
  const bool any_may_follow = !any_alive && GenerationIsOver(*inputs), forking = t - inputs->last_fork < kForking;
  inputs->earlier_bytes = 0;
  std::fill(inputs->earlier_peaks.begin(), inputs->earlier_peaks.end(), 0);
  for (const Generation& one : inputs->earlier) {
    const bool outlived = now.seconds > std::max(kLonger * one.seconds, one.seconds + kLeastLonger);
    if (!any_may_follow && (outlived || !AreOfOneKind(one, now, forking))) continue;
    inputs->earlier_bytes = std::max(inputs->earlier_bytes, one.bytes);
    for (size_t i = 0; i < one.peaks.size(); ++i)
      inputs->earlier_peaks[i] = std::max(inputs->earlier_peaks[i], one.peaks[i]);
  }
}

// The next generation may be forked in the same sample in which the last one ends. `living`: the workers now, as if
// they were a generation.
void RememberGenerations(const Sample& sample, const RunModel& model, const Generation& living,
                         ForecastInputs* inputs) {
  const double t = absl::ToDoubleSeconds(model.t);
  bool started = false;
  for (const Event& event : sample.events) {
    const ProcessModel* process = model.Find(event.index);
    if (process == nullptr || !process->is_worker()) continue;
    started |= event.Is<ProcessStarted>();
    inputs->generation_ended += event.Is<ProcessExited>();
  }
  if (started) inputs->last_fork = t;
  if (started && GenerationIsOver(*inputs)) {
    ++inputs->generations;
    inputs->earlier.push_back(std::exchange(inputs->generation, {}));
    if (inputs->earlier.size() > kMostEarlier) inputs->earlier.erase(inputs->earlier.begin());
    inputs->generation_ended = 0;
    inputs->new_outside.EndGeneration();
    for (OutsideGrowth& outside : inputs->outside) outside.EndGeneration();
  }
  Generation& now = inputs->generation;
  if (now.workers == 0) now = {.began = t};
  now.began = std::min(now.began, living.began);
  if (living.workers > 0) now.seconds = t - now.began;
  now.workers = std::max(now.workers, living.workers);
  now.of_loader |= living.of_loader;
  now.of_pool |= living.of_pool;
  now.bytes = std::max(now.bytes, living.bytes);
  now.peaks.resize(model.limits.size());
  for (size_t i = 0; i < model.limits.size(); ++i) now.peaks[i] = std::max(now.peaks[i], model.limits[i].now.used);
  CompareWithEarlier(t, living.workers > 0, inputs);
}

// `fresh_outside`: new memory of processes other than workers, in bytes.
void RememberOutside(const Sample& sample, const RunModel& model, uint64_t workers_bytes, double fresh_outside,
                     ForecastInputs* inputs) {
  const ProcessModel* target = model.target();
  bool workers_end = false;
  double leaving = 0;  // of other processes that ended: a limit may still have it. Bytes
  for (const Event& event : sample.events) {
    const ProcessModel* process = event.Is<ProcessExited>() ? model.Find(event.index) : nullptr;
    if (process == nullptr) continue;
    workers_end |= process->is_worker();
    leaving += process->is_worker() ? 0 : process->private_bytes.value_or(0);
  }
  if (inputs->generation.workers == 0 || workers_end || target == nullptr || target->ended) return;
  const double t = absl::ToDoubleSeconds(model.t), started = inputs->start_up.outside_bytes();
  for (size_t i = 0; i < model.limits.size(); ++i) {
    const LimitSample& limit = model.limits[i].now;
    if (limit.kind == LimitKind::kShm) fresh_outside += limit.used;
    const double outside = static_cast<double>(limit.used) - workers_bytes;
    if (IsMemory(limit.kind) && leaving <= kNoticeableEnd * std::max(outside, 0.0))
      inputs->outside[i].Add({t, outside - started}, started);
  }
  inputs->new_outside.Add({t, fresh_outside - started}, started);
}

// The most that /dev/shm gained since the attach. Bytes.
double GainOfShm(const RunModel& model) {
  double gain = 0;
  for (const LimitModel& limit : model.limits) gain += limit.now.kind == LimitKind::kShm ? limit.rise : 0;
  return gain;
}

// What the process has copied of what it inherited, and still owns.
uint64_t CopiedBytes(const ProcessModel& process, uint64_t page_bytes) {
  return std::min(process.inherited_copies() * page_bytes, process.private_bytes.value_or(0));
}

}  // namespace

void Remember(const Sample& sample, const RunModel& model, ForecastInputs* inputs) {
  const double t = absl::ToDoubleSeconds(model.t);
  const uint64_t page_bytes = model.info.page_bytes;
  double living_copies = 0, fresh = 0, fresh_outside = 0, copied_outside = 0, unnamed = 0;
  uint64_t private_bytes = 0, ceiling_bytes = 0;
  Generation workers = {.began = t};  // those that live now
  ForEachLately(model, [&](const ProcessModel& process) {
    if (process.ended) return;
    living_copies += CopiedBytes(process, page_bytes);
    const double fresh_here =
        (static_cast<double>(process.anonymous_pages()) - process.first_anonymous_pages()) * page_bytes;
    fresh += fresh_here;
    unnamed += static_cast<double>(process.shared_kept_pages()) * page_bytes;
    private_bytes += process.private_bytes.value_or(0);
    ceiling_bytes += process.ceiling_bytes().value_or(0);
    if (!process.is_worker()) {
      fresh_outside += fresh_here;
      copied_outside += static_cast<double>(process.counts.copies.value_or(0)) * page_bytes;
      return;
    }
    ++workers.workers;
    workers.bytes += process.private_bytes.value_or(0);
    workers.of_loader |= process.loader.has_value();
    workers.of_pool |= process.role == Role::kPool;
    if (process.origin == Origin::kFoundAtAttach) workers.began = -std::numeric_limits<double>::infinity();
  });
  inputs->start_up.Learn(model);
  const double started = inputs->start_up.anonymous_bytes(), started_shm = inputs->start_up.shared_bytes();
  fresh -= started;
  inputs->beyond_copies.resize(model.limits.size());
  inputs->earlier_peaks.resize(model.limits.size());
  inputs->outside.resize(model.limits.size());
  for (size_t i = 0; i < model.limits.size(); ++i) {
    const LimitSample& limit = model.limits[i].now;
    const bool shm = limit.kind == LimitKind::kShm;
    const double explained = IsMemory(limit.kind) ? living_copies + started + started_shm : shm ? started_shm : 0;
    if (shm) fresh += limit.used - started_shm;
    AppendPoint({t, limit.used - explained}, &inputs->beyond_copies[i]);
  }
  AppendPoint({t, static_cast<double>(CopiesOfWorkers(model)) * page_bytes}, &inputs->copied_bytes);
  AppendPoint({t, copied_outside}, &inputs->copied_outside);
  AppendPoint({t, fresh}, &inputs->new_bytes);
  AppendPoint({t, std::max(unnamed - GainOfShm(model), 0.0)}, &inputs->unnamed_bytes);
  RememberPages(sample, model, inputs);
  RememberGenerations(sample, model, workers, inputs);
  RememberOutside(sample, model, workers.bytes, fresh_outside, inputs);
  inputs->peak_private_bytes = std::max(inputs->peak_private_bytes, private_bytes);
  inputs->peak_ceiling_bytes = std::max(inputs->peak_ceiling_bytes, ceiling_bytes);
}

}  // namespace cowprof
