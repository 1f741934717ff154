// Estimates how many of the pages that workers inherited their reads will copy in the end, from where the first copies
// fell. Holds a bounded sample of the copied pages of the living workers of one address space. Pure. forecast_inputs.cc
// feeds it Sample.pages; docs/forecast.md has the method and its errors.
#ifndef COWPROF_MODEL_ESTIMATE_WORKING_SET_ESTIMATOR_H_
#define COWPROF_MODEL_ESTIMATE_WORKING_SET_ESTIMATOR_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "model/estimate/zone_estimate.h"

namespace cowprof {

class WorkingSetEstimator {
 public:
  static constexpr size_t kMostChunks = 24'576;  // about 2 MiB
  // A worker with a smaller share of what another one has copied idles, and tells nothing of how far that one will
  // come.
  static constexpr double kIdle = 0.05;

  // Adds `pages` adjacent pages that a worker copied.
  void Add(int worker, uint64_t first_page, uint64_t pages);
  // Whether enough was added since the last record for EndRecord() to end another.
  bool IsDue(std::optional<bool> persistent) const;
  // Ends a record: what was added since the last one. If that is next to nothing, it is left to the next record.
  // `zones`: sorted, not overlapping. `persistent`: whether the workers live on for another epoch, if known.
  void EndRecord(std::vector<PageZone> zones, std::optional<bool> persistent = std::nullopt);
  void Forget(const absl::flat_hash_set<int>& workers);
  // As of the last record; absent while too little was seen. Costs some milliseconds if many pages are known, so it is
  // computed on demand: a replay has records that nobody asks about.
  const std::optional<PoolEstimate>& estimate() const;

 private:
  // 64 pages of one worker; whole chunks are sampled, so that neighbours stay together.
  struct Chunk {
    uint64_t bits = 0;
    int first_record = 0, last_record = 0;
    int added = 0;  // pages, by the last record
  };
  using Key = std::pair<uint64_t, int>;  // number of the chunk, worker
  struct KeptChunk {
    Key key;
    Chunk chunk;
  };
  struct PendingChunk {
    Key key;
    uint64_t bits = 0, counted = 0;  // `counted`: those that are in added_
  };

  bool IsSampled(uint64_t chunk) const;
  uint64_t LeastOfRecord() const;
  template <typename IsGone>
  void Erase(const IsGone& is_gone);
  void Shrink();
  void SortPending();
  void Insert(std::vector<KeptChunk> fresh);
  absl::flat_hash_set<int> IdleWorkers() const;
  std::optional<PoolEstimate> Estimate(int record) const;

  std::vector<KeptChunk> chunks_;                // sorted by key
  absl::flat_hash_map<int, uint64_t> pages_of_;  // of each worker that has some of them, in these
  std::vector<PendingChunk> pending_;            // the record that is being added; sorted only by SortPending()
  size_t sort_at_ = 2 * kMostChunks;             // so that many are pending
  uint64_t pages_ = 0;                           // in chunks_
  int level_ = 0;                                // one chunk in 2^level is kept
  int record_ = 0;                               // that is being added
  uint64_t added_ = 0, told_ = 0;                // pages of the sample: added since the last record, and known at it
  uint64_t uncounted_ = 0;                       // the most that were added since SortPending()
  std::optional<bool> persistent_;
  std::vector<PageZone> zones_;
  mutable bool stale_ = false;  // `estimate_` is of an earlier record
  mutable std::optional<PoolEstimate> estimate_;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_WORKING_SET_ESTIMATOR_H_
