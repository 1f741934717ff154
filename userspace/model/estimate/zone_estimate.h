// What the copied pages of one zone of an address space tell of those that will be copied. Pure.
// working_set_estimator.h keeps the pages and adds up the zones; docs/forecast.md has the method and its errors.
#ifndef COWPROF_MODEL_ESTIMATE_ZONE_ESTIMATE_H_
#define COWPROF_MODEL_ESTIMATE_ZONE_ESTIMATE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace cowprof {

inline constexpr uint64_t kChunkPages = 64;

// Pages that one worker will have copied in the end, as of the last record.
struct PoolEstimate {
  double low = 0, best = 0, high = 0;
  bool sequential = false;  // the copies march through memory instead of falling everywhere
  // Time until 95 % of the rest is copied, relative to all of the rest at the pace of the last quarter of the reading:
  // kSteady if the pace stays as it is, 3 if it falls in proportion to what is left.
  double stretch = 3;
  static constexpr double kSteady = 0.95;
};

// What a page is used for, which decides what one copied page says about its neighbours.
enum class PagesKind {
  kArena,      // of pymalloc, with pools of several pages: objects of one size side by side, so all of a pool is read
  kSmallPool,  // of pymalloc, with pools of one page
  kOther,      // larger objects, which leave pages without a head
};

// A part of the address space, as far as it is known: pages [first, end).
struct PageZone {
  uint64_t first = 0, end = 0;
  PagesKind kind = PagesKind::kOther;
  // If it was searched for heads of objects, which are what a read writes: the share of its pages that have any, and
  // how many those have.
  std::optional<double> headed;
  double heads_each = 1;
};

// Copied pages of one 64-page chunk, over all workers.
struct CopiedChunk {
  uint64_t chunk = 0;
  int first_record = 0, last_record = 0;  // the earliest and the latest of any worker
  int added = 0;                          // pages added by the record that is judged
  uint64_t hits = 0;                      // pages, summed over its workers
  absl::Span<const uint64_t> bits;        // of each worker that hit it
};

struct CopiedZone {
  PagesKind kind = PagesKind::kOther;
  std::vector<const CopiedChunk*> rows;
  std::vector<PageZone> parts;  // that hold rows; for arenas: all of them
  int workers = 0;
  double scale = 1;  // how many chunks each row stands for
  std::optional<bool> persistent;
  // When reading ends, in multiples of what was read so far, judged by its progress elsewhere; absent: unknown.
  std::optional<PoolEstimate> end;
};

// Returns the copied pages of the zone, summed over its workers.
double HitsOf(const CopiedZone& zone);

// pymalloc's arenas are one zone: a data set fills one after the other. Of other memory each region is a zone of its
// own. `rows`: sorted by chunk, and kept alive by the caller; `parts`: sorted, not overlapping.
std::vector<CopiedZone> ZonesOf(const std::vector<CopiedChunk>& rows, const std::vector<PageZone>& parts);

// Returns the pages of this zone that one worker will have copied in the end. `record`: the number of the last one;
// `all_hits`: HitsOf all zones. nullopt: it can't be told yet whether the copies march or fall everywhere.
std::optional<PoolEstimate> EstimateOf(const CopiedZone& zone, int record, double all_hits);

// Workers that end with the epoch read each large object once in it. If large objects are most of what is read, how
// many of them are left also tells how far reading of the small ones has come. `pages`: EstimateOf this zone. For
// CopiedZone::end of the other zones.
std::optional<PoolEstimate> EndOf(const CopiedZone& zone, const PoolEstimate& pages, double all_hits);

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_ZONE_ESTIMATE_H_
