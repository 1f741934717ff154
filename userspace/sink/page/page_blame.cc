// See page_blame.h.
#include "sink/page_blame.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/blame.h"
#include "sink/page_series.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

Json FramesJson(const std::vector<Frame>& frames) {
  Json json = Json::array();
  for (const Frame& frame : frames) json.push_back({frame.file, frame.function, frame.line});
  return json;
}

Json PlacesJson(const std::vector<Place>& places) {
  Json json = Json::array();
  for (const Place& place : places) {
    json.push_back({{"cause", NameOf(place.cause)},
                    {"type", place.type},
                    {"module", place.module},
                    {"symbol", place.symbol},
                    {"frames", place.frames}});
  }
  return json;
}

}  // namespace

void PageBlame::Add(const Sample& sample, const Growth& growth) {
  if (sample.places.empty()) return;
  for (const PlaceCount& count : sample.places) changed_.insert(count.index);
  if (++records_ % every_ == 0) AddCheckpoint(growth);
}

void PageBlame::AddCheckpoint(const Growth& growth) {
  const size_t at = checkpoints_.Add(MillisecondsOf(growth.t));
  for (const ProcessGrowth& process : growth.processes) {
    Count& counted = counted_[process.index];
    if (counted == process.counts.copies && !changed_.contains(process.index)) continue;
    counted = process.counts.copies;
    for (const PlaceShare& share : CopiesByPlace(process)) {
      std::vector<Step>& steps = steps_[{process.index, share.place}];
      if (share.copies == (steps.empty() ? 0 : steps.back().copies)) continue;
      const bool is_new = steps.empty() || steps.back().at < at;
      if (is_new) steps.push_back({.at = at});
      step_count_ += is_new;
      steps.back().copies = share.copies;
    }
  }
  changed_.clear();
  while (checkpoints_.size() > 1 && (checkpoints_.size() > kMostCheckpoints || step_count_ > kMostSteps)) MergePairs();
}

void PageBlame::MergePairs() {
  every_ *= 2;
  checkpoints_.MergePairs();
  step_count_ = 0;
  for (auto& [pair, steps] : steps_) {
    size_t kept = 0;
    for (const Step& step : steps) {
      const size_t at = step.at / 2;
      if (kept == 0 || steps[kept - 1].at < at) ++kept;
      steps[kept - 1] = {at, step.copies};
    }
    steps.resize(kept);
    step_count_ += kept;
  }
}

void PageBlame::Write(const Growth& growth, ColumnFile* file, Json* page) const {
  PageBlame ended = *this;
  if (!steps_.empty() || !changed_.empty()) ended.AddCheckpoint(growth);
  Column times_ms, index, place, steps, at, copies;
  for (const uint64_t ms : ended.checkpoints_.ms()) times_ms.Add(ms);
  for (auto& [pair, list] : ended.steps_) {
    if (list.empty() || growth.Find(pair.first) == nullptr) continue;
    index.Add(pair.first);
    place.Add(pair.second);
    steps.Add(list.size());
    // Copies don't go away: where a later look found that fewer happened here than was thought, it knows better.
    for (size_t i = list.size() - 1; i > 0; --i) list[i - 1].copies = std::min(list[i - 1].copies, list[i].copies);
    for (const Step& step : list) {
      at.Add(step.at);
      copies.Add(step.copies);
    }
  }
  (*page)["frames"] = FramesJson(growth.frames);
  (*page)["places"] = PlacesJson(growth.places);
  (*page)["blame"] = {
      {"times_ms", file->Append(times_ms)}, {"index", file->Append(index)}, {"place", file->Append(place)},
      {"steps", file->Append(steps)},       {"at", file->Append(at)},       {"copies", file->Append(copies)}};
}

}  // namespace cowprof
