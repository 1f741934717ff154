// Distinguishes two ways of filling memory. If copies march (data read in order), what lies ahead will be copied as
// densely as what lies behind. If they fall everywhere (shuffled), it is like asking how many kinds of birds live in a
// forest when some were seen once, some twice (unseen_estimator.h). No clock is used, so stalls and a loaded machine
// don't matter.
#include "model/estimate/zone_estimate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "model/estimate/place_sums.h"
#include "model/estimate/unseen_estimator.h"

namespace cowprof {
namespace {

constexpr uint64_t kGroupPages = 4;  // as HitsByGroup() has them: a pool of pymalloc is 16 KiB from CPython 3.10 on
constexpr double kFewHits = 64, kSmallPart = 0.1;
constexpr double kLeastMargin = 0.05;  // of an estimate, whatever the figures say: not every page of a pool is read
constexpr double kMarch = 0.7;         // correlation of time and address from which on copies are said to march
constexpr double kMovedOn = 0.5;       // see AgeOf
// Objects beyond 512 bytes come from malloc, and have their reference count in one page of those they fill. How many
// pages have none can't be told from one worker: all are hit if objects are smaller than a page, half of them at 8 KiB.
constexpr double kHeads = 0.72, kFewestHeads = 0.5;
constexpr double kAlike = 1.15;
// Workers read apart if at least this share of their pages were copied together with the next one. Recorded of four
// workers that share the rows of a list: 0.80 with 1500 rows an item, 0.57 with 150, 0.34 with 50, 0.14 with 15, 0.00
// with one, from the first fifth of the epoch to its end.
constexpr double kApart = 0.2, kTellingPairs = 50;
// For regions whose pages were examined: not all of their objects are read, and so few pages were examined that the
// figure errs.
constexpr double kLookMargin = 0.1, kLeastOfHeaded = 0.75;
// Objects of a data set share their pools with others that are never read (strings with the keys of dicts of that
// size), so some pools are hit far more rarely than most. How many of their pages will be hit depends on how long
// reading goes on: until the usual page would have been hit `hits` times, but at least for `least` and at most for
// `most` times what was read so far.
struct Reading {
  double hits, least, most;
};
constexpr Reading kShort = {3, 1, 16}, kUsual = {6.5, 2, 28}, kLong = {25, 3, 60};

// Returns all pages of the zone, as far as known, scaled to what a sample of chunks sees of them.
double PagesOf(const CopiedZone& zone) {
  double pages = 0;
  for (const PageZone& part : zone.parts) pages += part.end - part.first;
  return std::max<double>(pages / zone.scale, zone.rows.size() * kChunkPages);
}

// Takes groups of pages as places and their pages as trials: those of all workers together, or of each worker for
// itself.
Caught HitsOfGroups(const CopiedZone& zone, bool together = true) {
  constexpr uint64_t kOfGroups = 0x1111'1111'1111'1111;  // the lowest bit of each
  std::vector<uint64_t> caught(kGroupPages * (together ? zone.workers : 1) + 1);
  for (const CopiedChunk* row : zone.rows) {
    PlaceSums<kGroupPages, kGroupPages> sums;
    for (const uint64_t bits : row->bits) {
      const uint64_t hits = HitsByGroup(bits);
      if (together) {
        sums.Add(hits);
        continue;
      }
      const uint64_t odd = hits & kOfGroups, two_or_three = hits >> 1 & kOfGroups;
      const int three = std::popcount(odd & two_or_three);
      caught[1] += std::popcount(odd) - three;
      caught[2] += std::popcount(two_or_three) - three;
      caught[3] += three;
      caught[4] += std::popcount(hits >> 2 & kOfGroups);
    }
    if (!together) continue;
    for (const uint64_t hits : sums.Get()) ++caught[hits];
  }
  return {.at = std::vector<double>(caught.begin(), caught.end()), .trials = static_cast<int>(caught.size() - 1)};
}

// Returns the largest share of copied pages whose neighbour at some distance was copied, too. In a repeating texture
// (objects of one size) that is the copied share of what can be copied.
double LikenessOf(const CopiedZone& zone) {
  double largest = 0;
  for (int distance = 2; distance <= 8; ++distance) {
    double pairs = 0, hits = 0;
    for (const CopiedChunk* row : zone.rows) {
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
  return rest > 0 ? (high - 1) * lately / rest : PoolEstimate::kSteady;
}

PoolEstimate PagesOf(const Caught& groups, const CopiedZone& zone) {
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
double ShareOf(const CopiedZone& zone, double epochs) {
  const double heads = zone.parts.empty() ? 1 : zone.parts.front().heads_each;
  return -std::expm1(epochs * heads * std::log1p(-1.0 / zone.workers));
}

// Returns how many of `all` pages that are read each worker will copy: as far as they have a head.
PoolEstimate OfLargeObjects(const CopiedZone& zone, double all) {
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
      return {
          .low = pages.low, .best = share * pages.best, .high = share * pages.high, .stretch = PoolEstimate::kSteady};
    // Nothing says how many epochs are still to come: the middle errs least.
    pages.best = (std::max(HitsOf(zone) / zone.workers, share * pages.best) + pages.best) / 2;
    return pages;
  }
  pages.stretch = PoolEstimate::kSteady;  // each item is read once in an epoch, and then all have been
  if (const double likeness = LikenessOf(zone); !headed && likeness > 0)
    pages.best = std::min(pages.best, std::max(HitsOf(zone) / likeness, kFewestHeads * pages.best));
  return pages;
}

// Whether workers keep to pages of their own, as when each item is a block of neighbouring objects: then what one has
// copied the others won't, and pools tell nothing of how far each will come. Compares how often a worker copied the
// page after one of its own with how often another worker did. With single objects in no order both are as likely,
// however much some pools are read and others not. What every worker copies at its start is left out.
bool ReadApart(const CopiedZone& zone) {
  double pages = 0, own = 0, of_others = 0;
  for (const CopiedChunk* row : zone.rows) {
    if (row->first_record == 0) continue;
    // What goes on in another worker's next page follows from how many copied each page.
    PlaceSums<1, 1> workers;
    uint64_t of_all = 0, of_itself = 0;
    for (const uint64_t bits : row->bits) {
      workers.Add(bits);
      of_itself += std::popcount(bits & bits >> 1);
    }
    const auto& copied = workers.Get();
    for (uint64_t page = 0; page + 1 < kChunkPages; ++page) {
      pages += copied[page];
      of_all += copied[page] * copied[page + 1];
    }
    own += of_itself;
    of_others += of_all - of_itself;
  }
  if (own < kTellingPairs) return false;
  const double by_itself = own / pages, by_another = of_others / pages / (zone.workers - 1);
  return by_itself - by_another > kApart * (1 - by_another);
}

PoolEstimate Scattered(const CopiedZone& zone) {
  const double each = HitsOf(zone) / zone.workers;
  const Caught together = HitsOfGroups(zone), apart = HitsOfGroups(zone, /*together=*/false);
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
double MarchOf(const std::vector<const CopiedChunk*>& rows) {
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (const CopiedChunk* row : rows) {
    const double address = row->chunk - rows.front()->chunk, record = row->first_record;
    ++n, x += address, y += record, xx += address * address, yy += record * record, xy += address * record;
  }
  const double variance = (n * xx - x * x) * (n * yy - y * y);
  return n >= 8 && variance > 0 ? (n * xy - x * y) / std::sqrt(variance) : 0;
}

// Returns how old the rows are that copies fall into now, as a part of the time since the first record: 1 if they fall
// everywhere, as they always did; about 0 if they have moved on.
double AgeOf(const CopiedZone& zone, int record) {
  double age = 0, added = 0;
  for (const CopiedChunk* row : zone.rows) {
    if (row->last_record < record) continue;
    age += row->added * (record - row->first_record);
    added += row->added;
  }
  return added > 0 && record > 0 ? age / (added * record) : 1;
}

// Estimates copies that march: what they leave behind, plus what lies ahead of the front at the same density. nullopt
// if they don't march, or not along the addresses.
std::optional<PoolEstimate> Marching(const CopiedZone& zone, int record) {
  // What every worker hits at the start (modules, types) is not part of the march.
  std::vector<const CopiedChunk*> rows;
  for (const CopiedChunk* row : zone.rows) {
    if (row->first_record > 0) rows.push_back(row);
  }
  const double march = MarchOf(rows);
  if (std::abs(march) < kMarch) return std::nullopt;
  double settled_hits = 0, settled_pages = 0;
  uint64_t front = march > 0 ? 0 : UINT64_MAX;
  for (const CopiedChunk* row : rows) {
    if (row->last_record >= record - 1) front = march > 0 ? std::max(front, row->chunk) : std::min(front, row->chunk);
    if (row->last_record >= record - 1) continue;
    settled_pages += kChunkPages;
    settled_hits += row->hits;
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
  return PoolEstimate{each + 0.7 * rest, each + rest, each + 1.2 * rest, true, PoolEstimate::kSteady};
}

}  // namespace

double HitsOf(const CopiedZone& zone) {
  double hits = 0;
  for (const CopiedChunk* row : zone.rows) hits += row->hits;
  return hits;
}

std::optional<PoolEstimate> EstimateOf(const CopiedZone& zone, int record, double all_hits) {
  const double hits = HitsOf(zone);
  // Too little to matter; if it grows, a later record judges it.
  if (hits < std::max(kFewHits, kSmallPart * all_hits))
    return PoolEstimate{hits / zone.workers, hits / zone.workers, hits / zone.workers};
  if (record == 0) return std::nullopt;
  if (AgeOf(zone, record) < kMovedOn) return Marching(zone, record);
  if (zone.kind == PagesKind::kArena && zone.workers >= 2 && ReadApart(zone)) return std::nullopt;
  return Scattered(zone);
}

std::optional<PoolEstimate> EndOf(const CopiedZone& zone, const PoolEstimate& pages, double all_hits) {
  const double hits = HitsOf(zone), each = hits / zone.workers;
  if (zone.kind != PagesKind::kOther || zone.persistent != false || zone.workers < 2 || hits < all_hits / 2)
    return std::nullopt;
  return PoolEstimate{.low = std::max(pages.low / each, 1.0), .best = pages.best / each, .high = pages.high / each};
}

std::vector<CopiedZone> ZonesOf(const std::vector<CopiedChunk>& rows, const std::vector<PageZone>& parts) {
  std::map<std::pair<PagesKind, uint64_t>, CopiedZone> zones;
  auto part = parts.begin();
  for (const CopiedChunk& row : rows) {
    const uint64_t first = row.chunk * kChunkPages;
    while (part != parts.end() && part->end <= first) ++part;
    const bool inside = part != parts.end() && part->first < first + kChunkPages;
    const PagesKind kind = inside ? part->kind : PagesKind::kOther;
    const bool alone = kind == PagesKind::kOther && inside;
    CopiedZone& zone = zones[{kind, alone ? part->first : 0}];
    zone.kind = kind;
    zone.rows.push_back(&row);
    if (alone && zone.parts.empty()) zone.parts = {*part};
  }
  std::vector<CopiedZone> out;
  for (auto& [key, zone] : zones) {
    for (const PageZone& one : parts) {
      if (zone.kind != PagesKind::kOther && one.kind == zone.kind) zone.parts.push_back(one);
    }
    out.push_back(std::move(zone));
  }
  return out;
}

}  // namespace cowprof
