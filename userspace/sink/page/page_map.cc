#include "sink/page/page_map.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "sink/page/page_series.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

Json RegionsJson(const std::vector<NumberedRegion>& regions) {
  Json json = Json::array();
  for (const auto& [space, region] : regions) {
    json.push_back({{"kind", NameOf(region.kind)},
                    {"name", region.name},
                    {"start", region.start},
                    {"bytes", region.end - region.start},
                    {"space", space}});
  }
  return json;
}

}  // namespace

void PageMap::Add(const Sample& sample) {
  const auto moment_of = [&](Moments* moments) {
    return static_cast<uint32_t>(moments->Add(MillisecondsOf(sample.t)));
  };
  for (const RegionCount& count : sample.regions) {
    Look look = {0, count.index, count.region, count.private_pages, count.shared_pages, count.new_pages};
    if (!Keeps(look)) {
      ++counts_dropped_;
      continue;
    }
    look.moment = moment_of(&count_moments_);
    counts_.push_back(look);
  }
  const uint32_t moment = sample.pages.empty() ? 0 : moment_of(&run_moments_);
  for (const PageRun& run : sample.pages) {
    if (runs_seen_++ % stride_ == 0)
      runs_.push_back({run.first_page, run.pages, static_cast<uint64_t>(run.cause), moment, run.index});
    else
      pages_dropped_ += run.pages;
  }
  if (runs_.size() > most_runs_) ThinRuns();
  if (counts_.size() > most_counts_) ThinCounts();
}

// Thins to three quarters of the bound, so that it is not needed again soon. Where even one moment for all would leave
// too many runs, as of thousands of workers, times stay as they are, and every second run is dropped, old or new.
void PageMap::ThinRuns() {
  const size_t runs = most_runs_ / 4 * 3;
  if (!scattered_) {
    std::deque<Run> at_once = runs_;
    for (Run& at : at_once) at.moment = 0;
    Merge(&at_once);
    scattered_ = at_once.size() > runs;
  }
  while (run_moments_.size() > 1 && runs_.size() > runs && !scattered_) {
    run_moments_.MergePairs();
    for (Run& at : runs_) at.moment /= 2;
    Merge(&runs_);
  }
  while (runs_.size() > runs) {
    stride_ *= 2;
    for (size_t i = 1; i < runs_.size(); i += 2) pages_dropped_ += runs_[i].pages;
    for (size_t i = 0; i < runs_.size(); i += 2) runs_[i / 2] = runs_[i];
    runs_.resize((runs_.size() + 1) / 2);
  }
}

// Thins to three quarters of the bound. Where one look at each region would fill more than half of that, as of
// thousands of arenas in tens of workers, no times would be left: then whole regions are dropped.
void PageMap::ThinCounts() {
  const size_t counts = most_counts_ / 4 * 3;
  while (RegionsSeen() > counts / 2) {
    region_stride_ *= 2;
    counts_dropped_ += std::erase_if(counts_, [&](const Look& look) { return !Keeps(look); });
  }
  while (count_moments_.size() > 1 && counts_.size() > counts) {
    count_moments_.MergePairs();
    MergeCounts();
  }
}

// Keeps the same regions at all times: what is known of one is complete. Fibonacci hashing spreads them evenly over
// processes and addresses.
bool PageMap::Keeps(const Look& look) const {
  const uint64_t key = uint64_t{static_cast<uint32_t>(look.index)} << 32 | static_cast<uint32_t>(look.region);
  return key * 0x9E3779B97F4A7C15 <= UINT64_MAX / region_stride_;
}

size_t PageMap::RegionsSeen() const {
  absl::flat_hash_set<std::pair<int, int>> seen;
  for (const Look& look : counts_) seen.emplace(look.index, look.region);
  return seen.size();
}

// Keeps the last of several looks at the same region.
void PageMap::MergeCounts() {
  const auto key = [](const Look& at) { return std::tuple(at.moment, at.index, at.region); };
  for (Look& at : counts_) at.moment /= 2;
  std::stable_sort(counts_.begin(), counts_.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  size_t kept = 0;
  for (const Look& at : counts_) {
    if (kept == 0 || key(counts_[kept - 1]) != key(at)) ++kept;
    counts_[kept - 1] = at;
  }
  counts_.resize(kept);
}

// Joins neighbours of one moment.
void PageMap::Merge(std::deque<Run>* runs) {
  const auto key = [](const Run& at) { return std::tuple(at.moment, at.index, at.first_page); };
  std::sort(runs->begin(), runs->end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  size_t kept = 0;
  for (const Run& at : *runs) {
    Run* last = kept > 0 ? &(*runs)[kept - 1] : nullptr;
    if (last != nullptr && last->moment == at.moment && last->index == at.index && last->cause == at.cause &&
        last->first_page + last->pages == at.first_page) {
      last->pages += at.pages;
    } else {
      (*runs)[kept++] = at;
    }
  }
  runs->resize(kept);
}

PageMap::Encoded PageMap::Encode() const {
  Encoded map = {.pages_dropped = pages_dropped_, .counts_dropped = counts_dropped_};
  auto& counts = map.counts;
  for (const Look& count : counts_) {
    counts.t_ms.Add(count_moments_.ms()[count.moment]);
    counts.index.Add(count.index);
    counts.region.Add(count.region);
    counts.private_pages.Add(count.private_pages);
    counts.shared_pages.Add(count.shared_pages);
    counts.new_pages.Add(count.new_pages);
  }
  auto& runs = map.runs;
  for (const Run& run : runs_) {
    runs.t_ms.Add(run_moments_.ms()[run.moment]);
    runs.index.Add(run.index);
    runs.cause.Add(run.cause);
    runs.first_page.Add(run.first_page);
    runs.pages.Add(run.pages);
  }
  return map;
}

void PageMap::Write(const RunModel& model, Encoded map, ColumnFile* file, Json* page) {
  auto& [counts, runs, pages_dropped, counts_dropped] = map;
  (*page)["regions"] = RegionsJson(model.regions);
  (*page)["region_counts"] = {{"t_ms", file->Append(std::move(counts.t_ms))},
                              {"index", file->Append(std::move(counts.index))},
                              {"region", file->Append(std::move(counts.region))},
                              {"private_pages", file->Append(std::move(counts.private_pages))},
                              {"shared_pages", file->Append(std::move(counts.shared_pages))},
                              {"new_pages", file->Append(std::move(counts.new_pages))}};
  (*page)["pages"] = {{"t_ms", file->Append(std::move(runs.t_ms))},
                      {"index", file->Append(std::move(runs.index))},
                      {"cause", file->Append(std::move(runs.cause))},
                      {"first_page", file->Append(std::move(runs.first_page))},
                      {"pages", file->Append(std::move(runs.pages))}};
  (*page)["pages_dropped"] = pages_dropped;
  (*page)["region_counts_dropped"] = counts_dropped;
}

}  // namespace cowprof
