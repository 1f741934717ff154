// Counts of pages by the number of their region.
#ifndef COWPROF_MODEL_FACTS_PAGES_BY_REGION_H_
#define COWPROF_MODEL_FACTS_PAGES_BY_REGION_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"

namespace cowprof {

class PagesByRegion {
 public:
  // 0 pages, if nothing was counted yet. The reference is valid until another region is asked for.
  uint64_t& operator[](int region) { return counts_[region]; }
  // Whether no region was asked for.
  bool empty() const { return counts_.empty(); }
  // Calls `use` with each region that was asked for, and its count, in no order.
  template <typename Use>
  void ForEach(const Use& use) const {
    for (const auto& [region, pages] : counts_) use(region, pages);
  }

 private:
  absl::flat_hash_map<int, uint64_t> counts_;  // a replay asks for a million of them
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_PAGES_BY_REGION_H_
