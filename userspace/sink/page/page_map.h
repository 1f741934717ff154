// What the page map is drawn from: the regions of address spaces, what the sweeps found in them, and which pages were
// copied when and why. Bounded: in a long recording times become coarser, and neighbours that were copied at about the
// same time become one run; what is still too much is dropped evenly, and counted.
#ifndef COWPROF_SINK_PAGE_PAGE_MAP_H_
#define COWPROF_SINK_PAGE_PAGE_MAP_H_

#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>

#include "model/facts/run_model.h"
#include "sink/page/page_columns.h"
#include "sink/page/page_moments.h"

namespace cowprof {

class PageMap {
 public:
  // A run takes about 1.5 bytes in the page and 40 in a browser.
  explicit PageMap(size_t most_runs = 1'500'000, size_t most_counts = 500'000)
      : most_runs_(most_runs), most_counts_(most_counts) {}

  void Add(const Sample& sample);
  // What the page gets of it.
  struct Encoded {
    struct {
      Column t_ms, index, region, private_pages, shared_pages, new_pages;
    } counts;
    struct {
      Column t_ms, index, cause, first_page, pages;
    } runs;
    uint64_t pages_dropped = 0, counts_dropped = 0;
  };
  Encoded Encode() const;
  // Sets regions, region_counts, pages, and how much of these was dropped.
  static void Write(const RunModel& model, Encoded map, ColumnFile* file, nlohmann::ordered_json* page);

 private:
  // There are up to two million of these: as small as they can be.
  struct Look {
    uint32_t moment = 0;
    int index = 0, region = 0;
    uint64_t private_pages = 0, shared_pages = 0, new_pages = 0;
  };
  struct Run {
    uint64_t first_page = 0;
    uint64_t pages : 56 = 0, cause : 8 = 0;
    uint32_t moment = 0;
    int index = 0;
  };
  void ThinRuns();
  void ThinCounts();
  void MergeCounts();
  bool Keeps(const Look& look) const;
  size_t RegionsSeen() const;
  static void Merge(std::deque<Run>* runs);

  size_t most_runs_, most_counts_;
  Moments run_moments_, count_moments_;
  std::deque<Look> counts_;
  std::deque<Run> runs_;
  bool scattered_ = false;               // coarser times would not help
  uint64_t stride_ = 1, runs_seen_ = 0;  // one in `stride_` of those that were seen is kept
  uint64_t region_stride_ = 1;           // one in so many regions of a process is kept
  uint64_t pages_dropped_ = 0, counts_dropped_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_MAP_H_
