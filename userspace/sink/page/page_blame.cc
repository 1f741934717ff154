#include "sink/page/page_blame.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "sink/page/page_series.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

Json FramesJson(const std::vector<Frame>& frames) {
  Json json = Json::array();
  for (const Frame& frame : frames) json.push_back({frame.file, frame.function, frame.line});
  return json;
}

// With the line that the report's by_line has it under, so that the page sums a part of the recording by the same
// lines.
Json CopySitesJson(const RunModel& model) {
  Json json = Json::array();
  for (const CopySite& copy_site : model.copy_sites) {
    const NumberedLine line = NumberedLineOf(model, copy_site.frames);
    json.push_back({{"cause", NameOf(copy_site.cause)},
                    {"type", copy_site.type},
                    {"module", copy_site.module},
                    {"symbol", copy_site.symbol},
                    {"frames", copy_site.frames},
                    {"line", line.frame < 0 ? Json(nullptr) : Json(line.frame)},
                    {"via", line.via}});
  }
  return json;
}

}  // namespace

void PageBlame::Add(const Sample& sample, const RunModel& model) {
  Touch(sample.processes);
  if (touched_.size() > 2 * model.processes.size()) {
    absl::erase_if(touched_, [&](int index) { return model.Find(index) == nullptr; });
    last_touched_.clear();
  }
  if (sample.copy_sites.empty()) return;
  for (const CopySiteCount& count : sample.copy_sites) changed_.insert(count.index);
  any_changed_ = true;
  if (changed_.size() > model.processes.size())
    std::erase_if(changed_, [&](int index) { return model.Find(index) == nullptr; });
  if (side_ != nullptr) {
    Settle();
    ForgetUnlisted(model);
  }
  if (++records_ % every_ == 0) AddCheckpoint(model);
}

// Mostly the same rows as in the sample before.
void PageBlame::Touch(absl::Span<const ProcessSample> rows) {
  last_touched_.resize(rows.size(), -1);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (last_touched_[i] != rows[i].index) touched_.insert(last_touched_[i] = rows[i].index);
  }
}

void PageBlame::Settle() {
  if (side_ != nullptr) side_->WaitFor(handed_over_);
  while (checkpoints_.size() > 1 && (checkpoints_.size() > kMostCheckpoints || step_count_ > kMostSteps)) MergePairs();
}

void PageBlame::AddSteps(Checkpoint* checkpoint) {
  absl::Span<CopySiteShare> sites = absl::MakeSpan(checkpoint->copy_sites);
  for (const Checkpoint::Of& process : checkpoint->processes) {
    const absl::Span<CopySiteShare> own = sites.subspan(0, process.sites);
    sites.remove_prefix(process.sites);
    const bool known = ScaleToCounted(process.copies, own);
    AddSteps(process.index, known ? own : absl::Span<CopySiteShare>(), checkpoint->at);
  }
}

// Both lists are in order of copy sites, so that no place has to be looked up.
void PageBlame::AddSteps(int index, absl::Span<const CopySiteShare> shares, size_t at) {
  // Of a recording whose counts fall: no copies are left.
  if (shares.empty()) {
    if (const auto known = places_.find(index); known != places_.end()) {
      for (const Place& place : known->second) step_count_ -= place.steps.size();
      places_.erase(known);
    }
    return;
  }
  std::vector<Place>& places = places_[index];
  size_t next = 0;
  for (const CopySiteShare& share : shares) {
    while (next < places.size() && places[next].copy_site < share.copy_site) ++next;
    const bool known = next < places.size() && places[next].copy_site == share.copy_site;
    const uint64_t copies = std::min(share.copies, kMostCopies);
    if (copies == (known ? places[next].copies : 0)) continue;
    if (!known) places.insert(places.begin() + next, {.copy_site = share.copy_site});
    places[next].copies = copies;
    std::vector<Step>& steps = places[next].steps;
    const bool is_new = steps.empty() || steps.back().at < at;
    if (is_new) steps.push_back({.at = at});
    step_count_ += is_new;
    steps.back().copies = copies;
  }
}

// Those that the model has summed up with others are not shown.
void PageBlame::ForgetUnlisted(const RunModel& model) {
  if (counted_.size() <= model.processes.size()) return;
  const auto is_unlisted = [&](const auto& one) { return model.Find(one.first) == nullptr; };
  std::erase_if(counted_, is_unlisted);
  if (std::erase_if(places_, is_unlisted) > 0) forgot_places_ = true;
}

void PageBlame::AddCheckpoint(const RunModel& model) {
  adding_.at = checkpoints_.Add(MillisecondsOf(model.t));
  adding_.processes.clear();
  adding_.copy_sites.clear();
  touched_.insert(changed_.begin(), changed_.end());
  for (const int index : touched_) {
    const ProcessModel* const process = model.Find(index);
    if (process == nullptr) continue;
    Count& counted = counted_[index];
    if (counted == process->counts.copies && !changed_.contains(index)) continue;
    counted = process->counts.copies;
    adding_.processes.push_back({index, counted.value_or(0), process->copy_sites.size()});
    for (const auto& [copy_site, count] : process->copy_sites) adding_.copy_sites.push_back({copy_site, count.copies});
  }
  touched_.clear();
  last_touched_.clear();
  changed_.clear();
  any_changed_ = false;
  if (side_ != nullptr) {
    handed_over_ = side_->Run([this] { AddSteps(&adding_); });
    return;
  }
  AddSteps(&adding_);
  ForgetUnlisted(model);
  Settle();
}

void PageBlame::MergePairs() {
  every_ *= 2;
  checkpoints_.MergePairs();
  step_count_ = 0;
  for (auto& [process, places] : places_) {
    for (Place& place : places) {
      std::vector<Step>& steps = place.steps;
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
}

void PageBlame::Write(const RunModel& model, ColumnFile* file, Json* page) const {
  PageBlame ended = *this;
  ended.side_ = nullptr;
  if (!places_.empty() || forgot_places_ || any_changed_) ended.AddCheckpoint(model);
  Column times_ms, index, copy_site, steps, at, copies;
  for (const uint64_t ms : ended.checkpoints_.ms()) times_ms.Add(ms);
  for (auto& [process, places] : ended.places_) {
    if (model.Find(process) == nullptr) continue;
    for (Place& place : places) {
      std::vector<Step>& list = place.steps;
      index.Add(process);
      copy_site.Add(place.copy_site);
      steps.Add(list.size());
      // Copies don't go away: if a later estimate is lower than an earlier one, lower the earlier one.
      for (size_t i = list.size() - 1; i > 0; --i)
        list[i - 1].copies = std::min<uint64_t>(list[i - 1].copies, list[i].copies);
      for (const Step& step : list) {
        at.Add(step.at);
        copies.Add(step.copies);
      }
    }
  }
  (*page)["frames"] = FramesJson(model.frames);
  (*page)["places"] = CopySitesJson(model);
  (*page)["blame"] = {{"times_ms", file->Append(std::move(times_ms))},
                      {"index", file->Append(std::move(index))},
                      {"place", file->Append(std::move(copy_site))},
                      {"steps", file->Append(std::move(steps))},
                      {"at", file->Append(std::move(at))},
                      {"copies", file->Append(std::move(copies))}};
}

}  // namespace cowprof
