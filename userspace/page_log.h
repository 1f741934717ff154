// Which pages were copied, by which cause: what the map of an arena is drawn from. Called by the collector; the pages
// come from the probes one by one and leave as runs. Bounded: a recording keeps the first million pages, which is some
// 5 MB of it.
#ifndef COWPROF_PAGE_LOG_H_
#define COWPROF_PAGE_LOG_H_

#include <cstdint>
#include <tuple>
#include <vector>

#include "model/sample.h"

namespace cowprof {

class PageLog {
 public:
  static constexpr uint64_t kMostPages = 1 << 20;

  void Add(int index, Cause cause, uint64_t page);
  // Neighbouring pages of one process and one cause as runs, sorted; each page once. Then the log is empty.
  std::vector<PageRun> Take();
  bool full() const { return kept_ + pages_.size() >= kMostPages; }

 private:
  std::vector<std::tuple<int, uint64_t, Cause>> pages_;
  uint64_t kept_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_PAGE_LOG_H_
