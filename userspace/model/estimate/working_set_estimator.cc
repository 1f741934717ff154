#include "model/estimate/working_set_estimator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model/estimate/zone_estimate.h"

namespace cowprof {
namespace {

constexpr double kLeastHits = 384;
// What a PyTorch worker copies by starting (modules, its own state), which says nothing about the data.
constexpr double kStartPages = 512;
constexpr double kMostUntold = 0.4;  // of all hits
// A record of fewer pages, or of a smaller part of all, would be a guess from a few.
constexpr uint64_t kLeastOfRecord = 64, kRecordsPart = 50;

PoolEstimate operator+(const PoolEstimate& a, const PoolEstimate& b) {
  return {a.low + b.low, a.best + b.best, a.high + b.high, a.sequential || b.sequential};
}

}  // namespace

bool WorkingSetEstimator::IsSampled(uint64_t chunk) const {
  return (chunk * 0x9e3779b97f4a7c15 >> 40 & ((uint64_t{1} << level_) - 1)) == 0;
}

template <typename IsGone>
void WorkingSetEstimator::Erase(const IsGone& is_gone) {
  std::erase_if(chunks_, [&](const KeptChunk& kept) { return is_gone(kept.key); });
  std::erase_if(pending_, [&](const PendingChunk& pending) { return is_gone(pending.key); });
  pages_ = 0;
  pages_of_.clear();
  for (const KeptChunk& kept : chunks_) {
    const uint64_t pages = std::popcount(kept.chunk.bits);
    pages_ += pages;
    pages_of_[kept.key.second] += pages;
  }
}

void WorkingSetEstimator::Shrink() {
  estimate();  // if it is due, it is of all chunks
  while (std::max(chunks_.size(), pending_.size()) >= kMostChunks && level_ < 20) {
    ++level_;
    Erase([this](const Key& key) { return !IsSampled(key.first); });
  }
}

void WorkingSetEstimator::Add(int worker, uint64_t first_page, uint64_t pages) {
  // A run has at most as many pages as CopiedPageRuns keeps; a longer one comes from a damaged file and is cut.
  const uint64_t end = first_page + std::min<uint64_t>(pages, 1 << 20);
  for (uint64_t page = first_page; page < end; page = (page / kChunkPages + 1) * kChunkPages) {
    const uint64_t chunk = page / kChunkPages, from = page % kChunkPages;
    if (!IsSampled(chunk)) continue;
    const uint64_t count = std::min(end - page, kChunkPages - from);
    const uint64_t mask = count == kChunkPages ? ~uint64_t{0} : ((uint64_t{1} << count) - 1) << from;
    const Key key(chunk, worker);
    uncounted_ += count;
    if (!pending_.empty() && pending_.back().key == key) {  // runs come sorted by address
      pending_.back().bits |= mask;
      continue;
    }
    pending_.push_back({.key = key, .bits = mask});
    if (pending_.size() < sort_at_) continue;
    SortPending();
    if (pending_.size() >= kMostChunks) Shrink();
    sort_at_ = 2 * std::max(pending_.size(), kMostChunks);
  }
}

void WorkingSetEstimator::SortPending() {
  const auto before = [](const PendingChunk& a, const PendingChunk& b) { return a.key < b.key; };
  // A record that goes on was sorted already, but for what was added since.
  const auto unsorted = std::is_sorted_until(pending_.begin(), pending_.end(), before);
  std::sort(unsorted, pending_.end(), before);
  std::inplace_merge(pending_.begin(), unsorted, pending_.end(), before);
  size_t count = 0;
  for (const PendingChunk& one : pending_) {
    if (count == 0 || pending_[count - 1].key != one.key) {
      pending_[count++] = one;
    } else {
      pending_[count - 1].bits |= one.bits;
      pending_[count - 1].counted |= one.counted;
    }
  }
  pending_.resize(count);
  auto kept = chunks_.begin();
  for (PendingChunk& one : pending_) {
    while (kept != chunks_.end() && kept->key < one.key) ++kept;
    const bool known = kept != chunks_.end() && kept->key == one.key;
    added_ += std::popcount(one.bits & ~one.counted & ~(known ? kept->chunk.bits : 0));
    one.counted = one.bits;
  }
  uncounted_ = 0;
}

void WorkingSetEstimator::Forget(const absl::flat_hash_set<int>& workers) {
  SortPending();
  estimate();  // if it is due, it is of these workers, too
  Erase([&](const Key& key) { return workers.contains(key.second); });
  told_ = 0;  // the next generation begins anew
}

// Inserts chunks that are not there yet; both lists are sorted.
void WorkingSetEstimator::Insert(std::vector<KeptChunk> fresh) {
  size_t from = chunks_.size(), to = from + fresh.size();
  chunks_.resize(to);
  while (!fresh.empty()) {
    if (from > 0 && fresh.back().key < chunks_[from - 1].key) {
      chunks_[--to] = chunks_[--from];
    } else {
      chunks_[--to] = fresh.back();
      fresh.pop_back();
    }
  }
}

uint64_t WorkingSetEstimator::LeastOfRecord() const { return std::max(kLeastOfRecord, told_ / kRecordsPart); }

bool WorkingSetEstimator::IsDue(std::optional<bool> persistent) const {
  return added_ + uncounted_ >= LeastOfRecord() || pending_.size() >= kMostChunks || persistent_ != persistent;
}

void WorkingSetEstimator::EndRecord(std::vector<PageZone> zones, std::optional<bool> persistent) {
  if (!IsDue(persistent)) return;
  SortPending();
  if (pending_.size() >= kMostChunks) Shrink();
  const bool next_to_nothing = added_ < LeastOfRecord();
  if (next_to_nothing && std::exchange(persistent_, persistent) == persistent) return;
  persistent_ = persistent;
  zones_ = std::move(zones);
  stale_ = false;  // an estimate that nobody asked for in time
  std::vector<KeptChunk> fresh;
  auto kept = chunks_.begin();
  for (const PendingChunk& one : pending_) {
    while (kept != chunks_.end() && kept->key < one.key) ++kept;
    const bool known = kept != chunks_.end() && kept->key == one.key;
    if (!known) fresh.push_back({.key = one.key, .chunk = {.first_record = record_}});
    Chunk& chunk = known ? kept->chunk : fresh.back().chunk;
    chunk.last_record = record_;
    chunk.added = std::popcount(one.bits & ~chunk.bits);
    chunk.bits |= one.bits;
    pages_ += chunk.added;
    pages_of_[one.key.second] += chunk.added;
  }
  pending_.clear();
  Insert(std::move(fresh));
  if (chunks_.size() >= kMostChunks) Shrink();
  added_ = 0;
  told_ = pages_;
  stale_ = true;
  ++record_;
}

const std::optional<PoolEstimate>& WorkingSetEstimator::estimate() const {
  if (std::exchange(stale_, false)) estimate_ = Estimate(record_ - 1);
  return estimate_;
}

absl::flat_hash_set<int> WorkingSetEstimator::IdleWorkers() const {
  uint64_t most = 0;
  for (const auto& [worker, pages] : pages_of_) most = std::max(most, pages);
  absl::flat_hash_set<int> idle;
  for (const auto& [worker, pages] : pages_of_) {
    if (pages < kIdle * most) idle.insert(worker);
  }
  return idle;
}

std::optional<PoolEstimate> WorkingSetEstimator::Estimate(int record) const {
  const absl::flat_hash_set<int> idle = IdleWorkers();
  const int workers = static_cast<int>(pages_of_.size() - idle.size());
  std::vector<uint64_t> bits;  // of the rows, one after another
  bits.reserve(chunks_.size());
  std::vector<CopiedChunk> rows;
  for (const auto& [key, chunk] : chunks_) {
    if (!idle.empty() && idle.contains(key.second)) continue;
    if (rows.empty() || rows.back().chunk != key.first)
      rows.push_back({.chunk = key.first, .first_record = chunk.first_record, .last_record = chunk.last_record});
    CopiedChunk& row = rows.back();
    bits.push_back(chunk.bits);
    row.bits = absl::MakeSpan(&bits.back() - row.bits.size(), row.bits.size() + 1);
    row.hits += std::popcount(chunk.bits);
    row.first_record = std::min(row.first_record, chunk.first_record);
    row.last_record = std::max(row.last_record, chunk.last_record);
    if (chunk.last_record == record) row.added += chunk.added;
  }
  const double scale = std::ldexp(1, level_);
  PoolEstimate sum;
  double hits = 0, untold = 0;  // untold: of zones that can't be estimated
  double rest = 0, stretched = 0;
  for (const CopiedChunk& row : rows) hits += row.hits;
  std::vector<CopiedZone> all = ZonesOf(rows, zones_);
  std::reverse(all.begin(), all.end());  // those of large objects first
  std::optional<PoolEstimate> end;
  for (CopiedZone& zone : all) {
    if (zone.rows.empty()) continue;
    zone.workers = workers;
    zone.scale = scale;
    zone.persistent = persistent_;
    zone.end = end;
    const std::optional<PoolEstimate> pages = EstimateOf(zone, record, hits);
    if (pages && !end) end = EndOf(zone, *pages, hits);
    const double of_zone = HitsOf(zone);
    if (!pages) untold += of_zone;
    if (!pages) continue;
    sum = sum + *pages;
    rest += pages->best - of_zone / zone.workers;
    stretched += pages->stretch * (pages->best - of_zone / zone.workers);
  }
  if (hits < kLeastHits || scale * hits < kStartPages * pages_of_.size() || untold > kMostUntold * hits)
    return std::nullopt;
  // Zones that can't be estimated are taken to come as far as the others; for `low`, to stay as they are.
  const double told = (hits - untold) / workers, each = hits / workers;
  return PoolEstimate{scale * (sum.low + each - told), scale * sum.best * each / told, scale * sum.high * each / told,
                      sum.sequential, rest > 0 ? stretched / rest : PoolEstimate::kSteady};
}

}  // namespace cowprof
