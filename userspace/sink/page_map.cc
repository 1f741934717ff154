// See page_map.h.
#include "sink/page_map.h"

#include <nlohmann/json.hpp>

#include "sink/page_series.h"

namespace cowprof {

using Json = nlohmann::ordered_json;

void PageMap::Add(const Sample& sample) {
  const uint64_t t_ms = MillisecondsOf(sample.t);
  for (const RegionCount& count : sample.regions) {
    counts_.t_ms.Add(t_ms);
    counts_.index.Add(count.index);
    counts_.region.Add(count.region);
    counts_.private_pages.Add(count.private_pages);
    counts_.shared_pages.Add(count.shared_pages);
    counts_.new_pages.Add(count.new_pages);
  }
  for (const PageRun& run : sample.pages) {
    pages_.t_ms.Add(t_ms);
    pages_.index.Add(run.index);
    pages_.cause.Add(static_cast<uint64_t>(run.cause));
    pages_.first_page.Add(run.first_page);
    pages_.pages.Add(run.pages);
  }
}

void PageMap::Write(const Growth& growth, ColumnFile* file, Json* page) const {
  Json regions = Json::array();
  for (const NumberedRegion& numbered : growth.regions) {
    const Region& region = numbered.region;
    regions.push_back({{"kind", NameOf(region.kind)},
                       {"name", region.name},
                       {"start", region.start},
                       {"bytes", region.end - region.start},
                       {"space", numbered.index}});
  }
  (*page)["regions"] = std::move(regions);
  (*page)["region_counts"] = {{"t_ms", file->Append(counts_.t_ms)},
                              {"index", file->Append(counts_.index)},
                              {"region", file->Append(counts_.region)},
                              {"private_pages", file->Append(counts_.private_pages)},
                              {"shared_pages", file->Append(counts_.shared_pages)},
                              {"new_pages", file->Append(counts_.new_pages)}};
  (*page)["pages"] = {{"t_ms", file->Append(pages_.t_ms)},
                      {"index", file->Append(pages_.index)},
                      {"cause", file->Append(pages_.cause)},
                      {"first_page", file->Append(pages_.first_page)},
                      {"pages", file->Append(pages_.pages)}};
}

}  // namespace cowprof
