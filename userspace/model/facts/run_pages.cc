#include "model/facts/run_pages.h"

#include <algorithm>
#include <utility>

#include "model/facts/run_events.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// Distributes runs of pages over the regions of their address spaces; drops pages that lie in none.
class RunAppender {
 public:
  explicit RunAppender(const RunModel& model) : model_(model), next_(model.regions_by_start.end()) {}

  void Append(const PageRun& run, ProcessModel* process) {
    const uint64_t page_bytes = model_.info.page_bytes, end = (run.first_page + run.pages) * page_bytes;
    const auto& regions = model_.regions_by_start;
    const std::pair<int, uint64_t> first = {process->space, run.first_page * page_bytes};
    // Runs ascend, and most lie in the region of the one before.
    const auto after = next_ == regions.end() ? next_ : std::next(next_);
    const bool same =
        next_ != regions.end() && next_->first <= first && (after == regions.end() || first < after->first);
    if (!same) next_ = regions.upper_bound(first);
    if (!same && next_ != regions.begin()) --next_;
    for (auto at = next_; at != regions.end() && at->first < std::make_pair(process->space, end); ++at) {
      if (at->first.first != process->space) continue;
      const Region& region = model_.regions[at->second].region;
      const uint64_t from = std::max(region.start, first.second), to = std::min(region.end, end);
      if (from < to) *Copied(at->second, process) += (to - from) / page_bytes;
    }
  }

 private:
  uint64_t* Copied(int region, ProcessModel* process) {
    if (process != last_.process || region != last_.region) last_ = {process, region, &process->copied_pages[region]};
    return last_.pages;
  }

  const RunModel& model_;
  absl::btree_map<std::pair<int, uint64_t>, int>::const_iterator next_;
  struct {
    const ProcessModel* process = nullptr;
    int region = 0;
    uint64_t* pages = nullptr;
  } last_;
};

// Sets `map[key]`. `at`: where the last key was set in this map, or its end: most rows of a sample follow one another.
template <typename Map, typename Value>
void SetNext(int key, const Value& value, Map* map, typename Map::iterator* at) {
  if (*at != map->end() && (*at)->first < key) ++*at;
  if (*at == map->end() || (*at)->first != key) *at = map->try_emplace(key).first;
  (*at)->second = value;
}

// This one is there now. Regions of an address space do not overlap: those that begin inside of it are gone.
void PutInPlace(int number, RunModel* model) {
  const NumberedRegion& region = model->regions[number];
  const auto [start, end] = std::make_pair(region.region.start, region.region.end);
  auto& starts = model->regions_by_start;
  if (start < end) starts.erase(starts.upper_bound({region.index, start}), starts.lower_bound({region.index, end}));
  starts[{region.index, start}] = number;
}

}  // namespace

void AppendRegions(const Sample& sample, RunModel* model) {
  for (const NumberedRegion& region : sample.new_regions) {
    model->regions.push_back(region);
    PutInPlace(static_cast<int>(model->regions.size()) - 1, model);
  }
  for (const GrownRegion& grown : sample.grown_regions) {
    if (grown.region < 0 || grown.region >= static_cast<int>(model->regions.size())) continue;
    Region& region = model->regions[grown.region].region;
    region.end = SaturatingAdd(region.start, grown.bytes);
    PutInPlace(grown.region, model);
  }
  ProcessModel* last = nullptr;
  absl::btree_map<int, RegionCount>::iterator at;
  for (const RegionCount& count : sample.regions) {
    const bool known = count.region >= 0 && count.region < static_cast<int>(model->regions.size());
    ProcessModel* process = Announced(count.index, model);
    if (!known || process == nullptr) continue;
    if (std::exchange(last, process) != process) at = process->regions.end();
    SetNext(count.region, count, &process->regions, &at);
  }
  for (const RegionHeads& heads : sample.heads) model->heads[heads.region] = heads;
  RunAppender runs(*model);
  for (const PageRun& run : sample.pages) {
    if (ProcessModel* process = Announced(run.index, model)) runs.Append(run, process);
  }
}

void AppendCopySites(const Sample& sample, RunModel* model) {
  model->frames.insert(model->frames.end(), sample.new_frames.begin(), sample.new_frames.end());
  model->copy_sites.insert(model->copy_sites.end(), sample.new_copy_sites.begin(), sample.new_copy_sites.end());
  ProcessModel* last = nullptr;
  absl::btree_map<int, CopySiteCount>::iterator at;
  for (const CopySiteCount& count : sample.copy_sites) {
    const bool known = count.copy_site >= 0 && count.copy_site < static_cast<int>(model->copy_sites.size());
    ProcessModel* process = Announced(count.index, model);
    if (!known || process == nullptr) continue;
    if (std::exchange(last, process) != process) at = process->copy_sites.end();
    SetNext(count.copy_site, count, &process->copy_sites, &at);
  }
  if (sample.cause_evidence) model->cause_evidence = *sample.cause_evidence;
}

}  // namespace cowprof
