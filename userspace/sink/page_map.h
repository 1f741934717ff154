// What the page map is drawn from: the regions of address spaces, what the sweeps found in them, and which pages were
// copied when and why. Called by page.cc.
#ifndef COWPROF_SINK_PAGE_MAP_H_
#define COWPROF_SINK_PAGE_MAP_H_

#include <nlohmann/json_fwd.hpp>

#include "model/growth.h"
#include "sink/page_columns.h"

namespace cowprof {

class PageMap {
 public:
  void Add(const Sample& sample);
  // Sets regions, region_counts and pages.
  void Write(const Growth& growth, ColumnFile* file, nlohmann::ordered_json* page) const;

 private:
  struct {
    Column t_ms, index, region, private_pages, shared_pages, new_pages;
  } counts_;
  struct {
    Column t_ms, index, cause, first_page, pages;
  } pages_;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_MAP_H_
