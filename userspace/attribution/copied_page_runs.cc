// Sorts pages into runs when they are taken.
#include "attribution/copied_page_runs.h"

#include <algorithm>
#include <utility>

namespace cowprof {

void CopiedPageRuns::Add(int index, Cause cause, uint64_t page) {
  if (kept_ + pages_.size() < kMostPages) pages_.push_back({page, index, cause});
}

std::vector<PageRun> CopiedPageRuns::Take() {
  std::vector<Page> pages = std::exchange(pages_, {});
  std::stable_sort(pages.begin(), pages.end(), [](const Page& a, const Page& b) {
    return a.index != b.index ? a.index < b.index : a.page < b.page;
  });
  std::vector<PageRun> runs;
  for (const auto& [page, index, cause] : pages) {
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
  // Pages come in batches of one process.
  const CopiedPage* last = nullptr;
  const Member* member = nullptr;
  Cause cause = Cause::kUnknown;
  for (const CopiedPage& page : pages) {
    const bool same_process = last != nullptr && page.serial == last->serial;
    if (!same_process) member = programs.Find(page.serial);
    if (!same_process || page.shape != last->shape) cause = causes.OfShape(page.serial, page.shape);
    last = &page;
    if (member != nullptr) log->Add(member->index, cause, page.address / page_bytes);
  }
}

}  // namespace cowprof
