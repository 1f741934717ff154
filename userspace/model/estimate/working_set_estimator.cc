// Distinguishes two ways of filling memory. If copies march (data read in order), what lies ahead will be copied as
// densely as what lies behind. If they fall everywhere (shuffled), it is like asking how many kinds of birds live in a
// forest when some were seen once, some twice (unseen_estimator.h). No clock is used, so stalls and a loaded machine
// don't matter.
#include "model/estimate/working_set_estimator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "model/estimate/unseen_estimator.h"

namespace cowprof {
namespace {

constexpr uint64_t kChunkPages = 64;
constexpr uint64_t kGroupPages = 4;  // a pool of pymalloc is 16 KiB from CPython 3.10 on
constexpr double kLeastHits = 384, kFewHits = 64, kSmallPart = 0.1;
// What a PyTorch worker copies by starting (modules, its own state), which says nothing about the data.
constexpr double kStartPages = 512;
constexpr double kMostUntold = 0.4;    // of all hits
constexpr double kLeastMargin = 0.05;  // of an estimate, whatever the figures say: not every page of a pool is read
constexpr double kMarch = 0.7;         // correlation of time and address from which on copies are said to march
constexpr double kMovedOn = 0.5;       // see AgeOf
// Objects beyond 512 bytes come from malloc, and have their reference count in one page of those they fill. How many
// pages have none can't be told from one worker: all are hit if objects are smaller than a page, half of them at 8 KiB.
constexpr double kHeads = 0.72, kFewestHeads = 0.5;
constexpr double kAlike = 1.15;
// For regions whose pages were examined: not all of their objects are read, and so few pages were examined that the
// figure errs.
constexpr double kLookMargin = 0.1, kLeastOfHeaded = 0.75;
// A record of fewer pages, or of a smaller part of all, would be a guess from a few.
constexpr uint64_t kLeastOfRecord = 64, kRecordsPart = 50;
// Objects of a data set share their pools with others that are never read (strings with the keys of dicts of that
// size), so some pools are hit far more rarely than most. How many of their pages will be hit depends on how long
// reading goes on: until the usual page would have been hit `hits` times, but at least for `least` and at most for
// `most` times what was read so far.
struct Reading {
  double hits, least, most;
};
constexpr Reading kShort = {3, 1, 16}, kUsual = {6.5, 2, 28}, kLong = {25, 3, 60};

// Copied pages of one 64-page chunk, over all workers.
struct Row {
  uint64_t chunk = 0;
  int first_record = 0, last_record = 0;  // the earliest and the latest of any worker
  int added = 0;                          // pages added by the record that is judged
  std::vector<uint64_t> bits;             // of each worker that hit it
};

struct Zone {
  PagesKind kind = PagesKind::kOther;
  std::vector<const Row*> rows;
  std::vector<PageZone> parts;  // that hold rows; for arenas: all of them
  int workers = 0;
  double scale = 1;  // how many chunks each row stands for
  std::optional<bool> persistent;
  // When reading ends, in multiples of what was read so far, judged by its progress elsewhere; absent: unknown.
  std::optional<PoolEstimate> end;
};

// Returns all pages of the zone, as far as known, scaled to what a sample of chunks sees of them.
double PagesOf(const Zone& zone) {
  double pages = 0;
  for (const PageZone& part : zone.parts) pages += part.end - part.first;
  return std::max<double>(pages / zone.scale, zone.rows.size() * kChunkPages);
}

PoolEstimate operator+(const PoolEstimate& a, const PoolEstimate& b) {
  return {a.low + b.low, a.best + b.best, a.high + b.high, a.sequential || b.sequential};
}

constexpr double kSteady = 0.95;  // PoolEstimate::stretch at a steady pace

double HitsOf(const Zone& zone) {
  double hits = 0;
  for (const Row* row : zone.rows) {
    for (const uint64_t bits : row->bits) hits += std::popcount(bits);
  }
  return hits;
}

// Takes groups of pages as places and their pages as trials: those of all workers together, or of each worker for
// itself.
Caught HitsOfGroups(const Zone& zone, uint64_t group_pages, bool together = true) {
  const uint64_t trials = group_pages * (together ? zone.workers : 1);
  Caught caught = {.at = std::vector<double>(trials + 1), .trials = static_cast<int>(trials)};
  const uint64_t mask = (uint64_t{1} << group_pages) - 1;
  for (const Row* row : zone.rows) {
    for (uint64_t at = 0; at < kChunkPages; at += group_pages) {
      size_t hits = 0;
      for (const uint64_t bits : row->bits) {
        const size_t of_one = std::popcount(bits >> at & mask);
        if (!together) ++caught.at[of_one];
        hits += of_one;
      }
      if (together) ++caught.at[hits];
    }
  }
  return caught;
}

// Returns the largest share of copied pages whose neighbour at some distance was copied, too. In a repeating texture
// (objects of one size) that is the copied share of what can be copied.
double LikenessOf(const Zone& zone) {
  double largest = 0;
  for (int distance = 2; distance <= 8; ++distance) {
    double pairs = 0, hits = 0;
    for (const Row* row : zone.rows) {
      for (const uint64_t bits : row->bits) {
        hits += std::popcount(bits & (~uint64_t{0} >> distance));
        pairs += std::popcount(bits & bits >> distance);
      }
    }
    if (pairs >= 50) largest = std::max(largest, pairs / hits);
  }
  return largest;
}

// Returns PoolEstimate::stretch for a reading that ends at `end` and has come to 1.
double StretchOf(const Rates& rates, double end) {
  const double now = rates.HitAfter(1), rest = rates.HitAfter(end) - now, lately = 4 * (now - rates.HitAfter(0.75));
  double low = 1, high = end;
  while (high - low > 0.01 * low) {
    const double middle = (low + high) / 2;
    (rates.HitAfter(middle) < now + 0.95 * rest ? low : high) = middle;
  }
  return rest > 0 ? (high - 1) * lately / rest : kSteady;
}

PoolEstimate PagesOf(const Caught& groups, const Zone& zone) {
  const double seen = kGroupPages * groups.Seen(), unseen = kGroupPages * groups.Unseen();
  if (zone.kind != PagesKind::kArena || seen == 0)
    return {seen + 0.8 * unseen, seen + unseen, 1.03 * seen + 2.5 * unseen};
  const Rates rates(groups);
  const auto end_of = [&](const Reading& reading) {
    return std::clamp(reading.hits / rates.Usual(), reading.least, reading.most);
  };
  const PoolEstimate end =
      zone.end.value_or(PoolEstimate{.low = end_of(kShort), .best = end_of(kUsual), .high = end_of(kLong)});
  const auto after = [&](double time) { return kGroupPages * rates.HitAfter(time); };
  return {.low = (1 - kLeastMargin) * after(end.low),
          .best = after(end.best),
          .high = (1 + kLeastMargin) * after(end.high),
          .stretch = StretchOf(rates, end.best)};
}

// Returns the share of pages with heads that a worker will have hit after `epochs`, each of which gives it one item in
// `workers`.
double ShareOf(const Zone& zone, double epochs) {
  const double heads = zone.parts.empty() ? 1 : zone.parts.front().heads_each;
  return -std::expm1(epochs * heads * std::log1p(-1.0 / zone.workers));
}

// Returns how many of `all` pages that are read each worker will copy: as far as they have a head.
PoolEstimate OfLargeObjects(const Zone& zone, double all) {
  PoolEstimate pages = {.low = kFewestHeads * all, .best = kHeads * all, .high = all};
  const std::optional<double> headed = zone.parts.empty() ? std::nullopt : zone.parts.front().headed;
  if (headed) {
    const double heads = std::min(*headed * PagesOf(zone), all);
    pages = {kLeastOfHeaded * heads, heads, std::min((1 + kLookMargin) * heads, all)};
  }
  if (zone.workers >= 2) {
    // Workers share the items of an epoch. What the others have read, a worker may read in a later epoch, if there is
    // one.
    const double share = ShareOf(zone, 1);
    pages.low *= share;
    if (zone.persistent == false)
      return {.low = pages.low, .best = share * pages.best, .high = share * pages.high, .stretch = kSteady};
    // Nothing says how many epochs are still to come: the middle errs least.
    pages.best = (std::max(HitsOf(zone) / zone.workers, share * pages.best) + pages.best) / 2;
    return pages;
  }
  pages.stretch = kSteady;  // each item is read once in an epoch, and then all have been
  if (const double likeness = LikenessOf(zone); !headed && likeness > 0)
    pages.best = std::min(pages.best, std::max(HitsOf(zone) / likeness, kFewestHeads * pages.best));
  return pages;
}

PoolEstimate Scattered(const Zone& zone) {
  const double each = HitsOf(zone) / zone.workers;
  const Caught together = HitsOfGroups(zone, kGroupPages), apart = HitsOfGroups(zone, kGroupPages, false);
  // Workers reveal each other's unseen places only if they don't read the same items in the same order.
  const bool alike = apart.Seen() + apart.Unseen() > kAlike * zone.workers * (together.Seen() + together.Unseen());
  PoolEstimate pages = PagesOf(alike ? apart : together, zone);
  const double all = PagesOf(zone), part = alike ? 1.0 / zone.workers : 1;
  for (double* figure : {&pages.low, &pages.best, &pages.high}) *figure = std::min(part * *figure, all);
  if (zone.kind != PagesKind::kArena) pages = OfLargeObjects(zone, pages.best);
  pages.low = std::max(std::min(pages.low, (1 - kLeastMargin) * pages.best), each);
  pages.best = std::max(pages.best, each);
  pages.high = std::max(pages.high, (1 + kLeastMargin) * pages.best);
  return pages;
}

// Returns the correlation of a row's address with when it was first hit: 1 or -1 if copies march.
double MarchOf(const std::vector<const Row*>& rows) {
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (const Row* row : rows) {
    const double address = row->chunk - rows.front()->chunk, record = row->first_record;
    ++n, x += address, y += record, xx += address * address, yy += record * record, xy += address * record;
  }
  const double variance = (n * xx - x * x) * (n * yy - y * y);
  return n >= 8 && variance > 0 ? (n * xy - x * y) / std::sqrt(variance) : 0;
}

// Returns how old the rows are that copies fall into now, as a part of the time since the first record: 1 if they fall
// everywhere, as they always did; about 0 if they have moved on.
double AgeOf(const Zone& zone, int record) {
  double age = 0, added = 0;
  for (const Row* row : zone.rows) {
    if (row->last_record < record) continue;
    age += row->added * (record - row->first_record);
    added += row->added;
  }
  return added > 0 && record > 0 ? age / (added * record) : 1;
}

// Estimates copies that march: what they leave behind, plus what lies ahead of the front at the same density. nullopt
// if they don't march, or not along the addresses.
std::optional<PoolEstimate> Marching(const Zone& zone, int record) {
  // What every worker hits at the start (modules, types) is not part of the march.
  std::vector<const Row*> rows;
  for (const Row* row : zone.rows) {
    if (row->first_record > 0) rows.push_back(row);
  }
  const double march = MarchOf(rows);
  if (std::abs(march) < kMarch) return std::nullopt;
  double settled_hits = 0, settled_pages = 0;
  uint64_t front = march > 0 ? 0 : UINT64_MAX;
  for (const Row* row : rows) {
    if (row->last_record >= record - 1) front = march > 0 ? std::max(front, row->chunk) : std::min(front, row->chunk);
    if (row->last_record >= record - 1) continue;
    settled_pages += kChunkPages;
    for (const uint64_t bits : row->bits) settled_hits += std::popcount(bits);
  }
  if (settled_pages == 0 || front == 0 || front == UINT64_MAX) return std::nullopt;
  const uint64_t front_page = march > 0 ? (front + 1) * kChunkPages : front * kChunkPages;
  double ahead = 0;
  for (const PageZone& part : zone.parts) {
    if (march > 0 && part.end > front_page) ahead += part.end - std::max(part.first, front_page);
    if (march < 0 && part.first < front_page) ahead += std::min(part.end, front_page) - part.first;
  }
  const double each = HitsOf(zone) / zone.workers, density = settled_hits / settled_pages / zone.workers;
  const double rest = density * ahead / zone.scale;
  return PoolEstimate{each + 0.7 * rest, each + rest, each + 1.2 * rest, true, kSteady};
}

// nullopt: it can't be told yet which of the two it is.
std::optional<PoolEstimate> EstimateOf(const Zone& zone, int record, double all_hits) {
  const double hits = HitsOf(zone);
  // Too little to matter; if it grows, a later record judges it.
  if (hits < std::max(kFewHits, kSmallPart * all_hits))
    return PoolEstimate{hits / zone.workers, hits / zone.workers, hits / zone.workers};
  if (record == 0) return std::nullopt;
  if (AgeOf(zone, record) < kMovedOn) return Marching(zone, record);
  return Scattered(zone);
}

// Workers that end with the epoch read each large object once in it. If large objects are most of what is read, how
// many of them are left also tells how far reading of the small ones has come.
std::optional<PoolEstimate> EndOf(const Zone& zone, const PoolEstimate& pages, double all_hits) {
  const double hits = HitsOf(zone), each = hits / zone.workers;
  if (zone.kind != PagesKind::kOther || zone.persistent != false || zone.workers < 2 || hits < all_hits / 2)
    return std::nullopt;
  return PoolEstimate{.low = std::max(pages.low / each, 1.0), .best = pages.best / each, .high = pages.high / each};
}

// pymalloc's arenas are one zone: a data set fills one after the other. Of other memory each region is a zone of its
// own.
std::vector<Zone> ZonesOf(const std::vector<Row>& rows, const std::vector<PageZone>& parts) {
  std::map<std::pair<PagesKind, uint64_t>, Zone> zones;
  auto part = parts.begin();
  for (const Row& row : rows) {
    const uint64_t first = row.chunk * kChunkPages;
    while (part != parts.end() && part->end <= first) ++part;
    const bool inside = part != parts.end() && part->first < first + kChunkPages;
    const PagesKind kind = inside ? part->kind : PagesKind::kOther;
    const bool alone = kind == PagesKind::kOther && inside;
    Zone& zone = zones[{kind, alone ? part->first : 0}];
    zone.kind = kind;
    zone.rows.push_back(&row);
    if (alone && zone.parts.empty()) zone.parts = {*part};
  }
  std::vector<Zone> out;
  for (auto& [key, zone] : zones) {
    for (const PageZone& one : parts) {
      if (zone.kind != PagesKind::kOther && one.kind == zone.kind) zone.parts.push_back(one);
    }
    out.push_back(std::move(zone));
  }
  return out;
}

}  // namespace

bool WorkingSetEstimator::IsSampled(uint64_t chunk) const {
  return (chunk * 0x9e3779b97f4a7c15 >> 40 & ((uint64_t{1} << level_) - 1)) == 0;
}

void WorkingSetEstimator::Shrink() {
  estimate();  // if it is due, it is of all chunks
  const auto left_out = [this](const auto& entry) { return !IsSampled(entry.first.first); };
  while (std::max(chunks_.size(), pending_.size()) >= kMostChunks && level_ < 20) {
    ++level_;
    absl::erase_if(chunks_, left_out);
    absl::erase_if(pending_, left_out);
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
    const auto kept = chunks_.find(Key(chunk, worker));
    uint64_t& pending = pending_[Key(chunk, worker)];
    added_ += std::popcount(mask & ~pending & ~(kept == chunks_.end() ? 0 : kept->second.bits));
    pending |= mask;
    if (pending_.size() >= kMostChunks) Shrink();
  }
}

void WorkingSetEstimator::Forget(const absl::flat_hash_set<int>& workers) {
  estimate();  // if it is due, it is of these workers, too
  const auto is_theirs = [&](const auto& entry) { return workers.contains(entry.first.second); };
  absl::erase_if(chunks_, is_theirs);
  absl::erase_if(pending_, is_theirs);
  told_ = 0;  // the next generation begins anew
}

void WorkingSetEstimator::EndRecord(std::vector<PageZone> zones, std::optional<bool> persistent) {
  const bool next_to_nothing = added_ < std::max(kLeastOfRecord, told_ / kRecordsPart);
  if (next_to_nothing && std::exchange(persistent_, persistent) == persistent) return;
  persistent_ = persistent;
  zones_ = std::move(zones);
  stale_ = false;  // an estimate that nobody asked for in time
  for (const auto& [key, bits] : std::exchange(pending_, {})) {
    if (!IsSampled(key.first)) continue;
    const auto [entry, is_new] = chunks_.try_emplace(key);
    Chunk& chunk = entry->second;
    if (is_new) chunk.first_record = record_;
    chunk.last_record = record_;
    chunk.added = std::popcount(bits & ~chunk.bits);
    chunk.bits |= bits;
    if (is_new && chunks_.size() >= kMostChunks) Shrink();
  }
  added_ = told_ = 0;
  for (const auto& [key, chunk] : chunks_) told_ += std::popcount(chunk.bits);
  stale_ = true;
  ++record_;
}

const std::optional<PoolEstimate>& WorkingSetEstimator::estimate() const {
  if (std::exchange(stale_, false)) estimate_ = Estimate(record_ - 1);
  return estimate_;
}

std::optional<PoolEstimate> WorkingSetEstimator::Estimate(int record) const {
  std::vector<Row> rows;
  std::map<int, uint64_t> workers;
  for (const auto& [key, chunk] : chunks_) {
    if (rows.empty() || rows.back().chunk != key.first)
      rows.push_back({key.first, chunk.first_record, chunk.last_record});
    Row& row = rows.back();
    row.bits.push_back(chunk.bits);
    row.first_record = std::min(row.first_record, chunk.first_record);
    row.last_record = std::max(row.last_record, chunk.last_record);
    if (chunk.last_record == record) row.added += chunk.added;
    workers[key.second] += std::popcount(chunk.bits);
  }
  const double scale = std::ldexp(1, level_);
  PoolEstimate sum;
  double hits = 0, untold = 0;  // untold: of zones that can't be estimated
  double rest = 0, stretched = 0;
  for (const auto& [worker, pages] : workers) hits += pages;
  std::vector<Zone> all = ZonesOf(rows, zones_);
  std::reverse(all.begin(), all.end());  // those of large objects first
  std::optional<PoolEstimate> end;
  for (Zone& zone : all) {
    if (zone.rows.empty()) continue;
    zone.workers = static_cast<int>(workers.size());
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
  if (hits < kLeastHits || scale * hits < kStartPages * workers.size() || untold > kMostUntold * hits)
    return std::nullopt;
  // Zones that can't be estimated are taken to come as far as the others; for `low`, to stay as they are.
  const double told = (hits - untold) / workers.size(), each = hits / workers.size();
  return PoolEstimate{scale * (sum.low + each - told), scale * sum.best * each / told, scale * sum.high * each / told,
                      sum.sequential, rest > 0 ? stretched / rest : kSteady};
}

}  // namespace cowprof
