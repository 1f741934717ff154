// The moments of a bounded part of the page's data. If there are too many, only the later of each two neighbours is
// kept.
#ifndef COWPROF_SINK_PAGE_PAGE_MOMENTS_H_
#define COWPROF_SINK_PAGE_PAGE_MOMENTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cowprof {

class Moments {
 public:
  // Returns the number of the moment; two at the same time are one.
  size_t Add(uint64_t ms) {
    if (ms_.empty() || ms_.back() < ms) ms_.push_back(ms);
    return ms_.size() - 1;
  }
  // The moment with number n gets number n / 2.
  void MergePairs() {
    const size_t size = (ms_.size() + 1) / 2;
    for (size_t i = 0; i < size; ++i) ms_[i] = ms_[std::min(2 * i + 1, ms_.size() - 1)];
    ms_.resize(size);
  }
  const std::vector<uint64_t>& ms() const { return ms_; }
  size_t size() const { return ms_.size(); }

 private:
  std::vector<uint64_t> ms_;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_MOMENTS_H_
