// Counts of pages by the number of their region. Neighbours in memory mostly have neighbouring numbers, and a replay
// asks for a million of these counts: a node has those of several regions.
#ifndef COWPROF_MODEL_FACTS_PAGES_BY_REGION_H_
#define COWPROF_MODEL_FACTS_PAGES_BY_REGION_H_

#include <array>
#include <cstdint>
#include <map>

namespace cowprof {

class PagesByRegion {
 public:
  // `region`: at least 0. 0 pages, if nothing was counted yet. The reference stays valid.
  uint64_t& operator[](int region) { return counts_[region / kTogether][region % kTogether]; }
  // Whether no region was asked for.
  bool empty() const { return counts_.empty(); }
  // Calls `use` with each region that has pages, and their count, in order of regions.
  template <typename Use>
  void ForEach(const Use& use) const {
    for (const auto& [block, counts] : counts_) {
      for (int i = 0; i < kTogether; ++i) {
        if (counts[i] > 0) use(block * kTogether + i, counts[i]);
      }
    }
  }

 private:
  static constexpr int kTogether = 16;
  std::map<int, std::array<uint64_t, kTogether>> counts_;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_PAGES_BY_REGION_H_
