// See history.h.
#include "model/history.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "model/fold.h"
#include "model/growth.h"
#include "model/worker_ceiling.h"

namespace cowprof {
namespace {

constexpr uint64_t kLargeArenaBytes = 512 << 10;  // pymalloc's are of 1 MiB from CPython 3.10 on, of 256 KiB before

std::vector<PageZone> ZonesOf(const Growth& growth, int space) {
  const uint64_t page_bytes = growth.info.page_bytes;
  std::vector<PageZone> zones;
  for (auto next = growth.regions_by_start.lower_bound({space, 0});
       next != growth.regions_by_start.end() && next->first.first == space; ++next) {
    const Region& region = growth.regions[next->second].region;
    const PagesKind kind = region.kind != RegionKind::kPymallocArena      ? PagesKind::kOther
                           : region.end - region.start < kLargeArenaBytes ? PagesKind::kSmallPool
                                                                          : PagesKind::kArena;
    PageZone zone = {region.start / page_bytes, region.end / page_bytes, kind};
    if (const auto found = growth.heads.find(next->second); found != growth.heads.end() && found->second.pages > 0) {
      const RegionHeads& heads = found->second;
      zone.headed = static_cast<double>(heads.with_heads) / heads.pages;
      zone.heads_each = static_cast<double>(heads.heads) / std::max<uint64_t>(heads.with_heads, 1);
    }
    // A region that has moved leaves its old place behind.
    if (!zones.empty()) zones.back().end = std::min(zones.back().end, zone.first);
    if (zone.first < zone.end) zones.push_back(zone);
  }
  return zones;
}

// Absent where it is not known of all living workers of that memory, or they are not of one kind.
std::optional<bool> ArePersistent(const Growth& growth, int space) {
  std::optional<bool> persistent;
  for (const ProcessGrowth& process : growth.processes) {
    if (process.ended || process.role != Role::kWorker || process.space != space) continue;
    if (!process.persistent || (persistent && *persistent != *process.persistent)) return std::nullopt;
    persistent = process.persistent;
  }
  return persistent;
}

// Of memory that nobody has any more.
void ForgetPools(const Growth& growth, History* history) {
  if (history->pools.size() < 2) return;  // the target's
  std::set<int> living;
  for (const ProcessGrowth& process : growth.processes) {
    if (!process.ended) living.insert(process.space);
  }
  std::erase_if(history->pools, [&](const auto& pool) { return pool.first != 0 && !living.contains(pool.first); });
}

void RememberPages(const Sample& sample, const Growth& growth, History* history) {
  for (const PageRun& run : sample.pages) {
    const ProcessGrowth* process = growth.Find(run.index);
    // The owner's own copies are of another kind: it shares each page with all of its workers.
    if (process != nullptr && !process->ended && process->space != process->index)
      history->pools[process->space].Add(run.index, run.first_page, run.pages);
  }
  absl::flat_hash_set<int> left;
  for (const Event& event : sample.events) {
    if (event.kind == EventKind::kExit || event.kind == EventKind::kExec) left.insert(event.index);
  }
  if (!left.empty()) {
    for (auto& [space, pool] : history->pools) pool.Forget(left);
    ForgetPools(growth, history);
  }
  if (sample.pages.empty()) return;
  for (auto& [space, pool] : history->pools) pool.EndRecord(ZonesOf(growth, space), ArePersistent(growth, space));
}

// The next generation may be forked in the very sample in which the last one ends.
void RememberGenerations(const Sample& sample, const Growth& growth, size_t workers, uint64_t workers_bytes,
                         History* history) {
  bool started = false;
  for (const Event& event : sample.events) {
    const ProcessGrowth* process = growth.Find(event.index);
    if (process == nullptr || process->role != Role::kWorker) continue;
    started |= event.kind == EventKind::kProcess;
    history->generation_ended += event.kind == EventKind::kExit;
  }
  if (started && GenerationIsOver(*history)) {
    ++history->generations;
    history->earlier_bytes = std::max(history->earlier_bytes, history->generation_bytes);
    for (size_t i = 0; i < growth.limits.size(); ++i)
      history->earlier_peaks[i] = std::max(history->earlier_peaks[i], growth.limits[i].peak);
    history->generation_workers = history->generation_ended = 0;
    history->generation_bytes = 0;
  }
  history->generation_workers = std::max(history->generation_workers, workers);
  history->generation_bytes = std::max(history->generation_bytes, workers_bytes);
}

// What it has copied and still owns.
uint64_t CopiedBytes(const ProcessGrowth& process, uint64_t page_bytes) {
  return std::min(process.counts.copies.value_or(0) * page_bytes, process.private_bytes.value_or(0));
}

}  // namespace

void Remember(const Sample& sample, const Growth& growth, History* history) {
  const double t = absl::ToDoubleSeconds(growth.t);
  const uint64_t page_bytes = growth.info.page_bytes;
  double copied = 0, living_copies = 0, fresh = 0;
  uint64_t private_bytes = 0, ceiling_bytes = 0, workers_bytes = 0;
  size_t workers = 0;
  ForEachRow(growth, [&](const ProcessGrowth& process) {
    copied += static_cast<double>(process.counts.copies.value_or(0)) * page_bytes;
    if (process.ended) return;
    living_copies += CopiedBytes(process, page_bytes);
    fresh += (static_cast<double>(process.proc.anon_pages.value_or(0)) - process.first_anon_pages.value_or(0)) *
             static_cast<double>(page_bytes);
    private_bytes += process.private_bytes.value_or(0);
    ceiling_bytes += process.ceiling_bytes().value_or(0);
    if (process.role != Role::kWorker) return;
    ++workers;
    workers_bytes += process.private_bytes.value_or(0);
  });
  history->beyond_copies.resize(growth.limits.size());
  history->earlier_peaks.resize(growth.limits.size());
  for (size_t i = 0; i < growth.limits.size(); ++i) {
    const LimitSample& limit = growth.limits[i].now;
    const bool charged =
        limit.kind == LimitKind::kCgroupV1 || limit.kind == LimitKind::kCgroupV2 || limit.kind == LimitKind::kHost;
    if (limit.kind == LimitKind::kShm) fresh += limit.used;
    AppendPoint({t, static_cast<double>(limit.used) - (charged ? living_copies : 0)}, &history->beyond_copies[i]);
  }
  AppendPoint({t, copied}, &history->copied_bytes);
  AppendPoint({t, fresh}, &history->new_bytes);
  RememberPages(sample, growth, history);
  RememberGenerations(sample, growth, workers, workers_bytes, history);
  history->peak_private_bytes = std::max(history->peak_private_bytes, private_bytes);
  history->peak_ceiling_bytes = std::max(history->peak_ceiling_bytes, ceiling_bytes);
}

}  // namespace cowprof
