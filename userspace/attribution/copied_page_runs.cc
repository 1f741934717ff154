// See page_log.h.
#include "page_log.h"

#include <algorithm>
#include <utility>

namespace cowprof {

void PageLog::Add(int index, Cause cause, uint64_t page) {
  if (kept_ + pages_.size() < kMostPages) pages_.emplace_back(index, page, cause);
}

std::vector<PageRun> PageLog::Take() {
  std::vector<std::tuple<int, uint64_t, Cause>> pages = std::exchange(pages_, {});
  std::stable_sort(pages.begin(), pages.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  std::vector<PageRun> runs;
  for (const auto& [index, page, cause] : pages) {
    PageRun* last = runs.empty() || runs.back().index != index ? nullptr : &runs.back();
    if (last != nullptr && page < last->first_page + last->pages) continue;  // told twice
    if (last != nullptr && page == last->first_page + last->pages && cause == last->cause) {
      ++last->pages;
    } else {
      runs.push_back({index, cause, page, 1});
    }
    ++kept_;
  }
  return runs;
}

}  // namespace cowprof
