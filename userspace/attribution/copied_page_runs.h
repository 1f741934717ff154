// Which pages were copied, by which cause: what the map of an arena is drawn from. Pages come one by one and leave as
// runs. Bounded: a recording keeps the first million pages, which take some 5 MB of it.
#ifndef COWPROF_ATTRIBUTION_COPIED_PAGE_RUNS_H_
#define COWPROF_ATTRIBUTION_COPIED_PAGE_RUNS_H_

#include <cstdint>
#include <vector>

#include "attribution/programs.h"
#include "attribution/row_causes.h"
#include "model/facts/sample.h"
#include "source/fault_source.h"

namespace cowprof {

class CopiedPageRuns {
 public:
  static constexpr uint64_t kMostPages = 1 << 20;

  void Add(int index, Cause cause, uint64_t page);
  // Neighbouring pages of one process and one cause as runs, sorted; each page once. Empties the log.
  std::vector<PageRun> Take();
  bool full() const { return kept_ + pages_.size() >= kMostPages; }

 private:
  struct Page {
    uint64_t page = 0;
    int index = 0;
    Cause cause = Cause::kUnknown;
  };

  std::vector<Page> pages_;
  uint64_t kept_ = 0;
};

// Adds pages of a pull whose causes were judged, numbered in units of the host's page size. The source does not know
// their instructions: a page gets the cause that most copies onto its shape have in its process.
void LogPages(const std::vector<CopiedPage>& pages, uint64_t page_bytes, const Programs& programs,
              const RowCauses& causes, CopiedPageRuns* log);

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_COPIED_PAGE_RUNS_H_
