// Sorts pages into runs when they are taken.
#include "attribution/copied_page_runs.h"

#include <algorithm>
#include <utility>

namespace cowprof {

void CopiedPageRuns::Add(int index, Cause cause, uint64_t page) {
  if (kept_ + pages_.size() < kMostPages) pages_.emplace_back(index, page, cause);
}

std::vector<PageRun> CopiedPageRuns::Take() {
  std::vector<std::tuple<int, uint64_t, Cause>> pages = std::exchange(pages_, {});
  std::stable_sort(pages.begin(), pages.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  std::vector<PageRun> runs;
  for (const auto& [index, page, cause] : pages) {
    PageRun* last = runs.empty() || runs.back().index != index ? nullptr : &runs.back();
    if (last != nullptr && page < last->first_page + last->pages) continue;  // reported twice
    if (last != nullptr && page == last->first_page + last->pages && cause == last->cause) {
      ++last->pages;
    } else {
      runs.push_back({index, cause, page, 1});
    }
    ++kept_;
  }
  return runs;
}

void LogPages(const std::vector<CopiedPage>& pages, uint64_t page_bytes, const Programs& programs,
              const RowCauses& causes, CopiedPageRuns* log) {
  for (const CopiedPage& page : pages) {
    if (const Member* member = programs.Find(page.serial))
      log->Add(member->index, causes.OfShape(page.serial, page.shape), page.address / page_bytes);
  }
}

}  // namespace cowprof
