#include "sink/page/page_events.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/saturating.h"

namespace cowprof {

using Json = nlohmann::ordered_json;

void PageEvents::Add(const Sample& sample, const std::vector<Alert>& raised, const RunModel& model) {
  for (const Event& event : sample.events) {
    if (std::optional<Mark> mark = MarkOf(event, model)) marks_.push_back(*std::move(mark));
  }
  for (const Alert& alert : raised) marks_.push_back(MarkOf(alert));
  if (marks_.size() > 2 * kMost) Thin();
}

// Drops marks of the least informative kind first, the latest before the earlier ones; then those of the next kind.
void PageEvents::Thin() {
  size_t surplus = SaturatingSubtract(marks_.size(), kMost);
  dropped_ += surplus;
  for (int kind = 0; surplus > 0; ++kind) {
    auto keep = std::remove_if(marks_.rbegin(), marks_.rend(), [&](const Mark& mark) {
      return static_cast<int>(mark.kind) == kind && surplus > 0 && surplus-- > 0;
    });
    marks_.erase(marks_.begin(), keep.base());
  }
}

void PageEvents::Write(const RunModel& model, const Findings& findings, Json* page) const {
  PageEvents kept = *this;
  kept.Thin();
  std::stable_sort(kept.marks_.begin(), kept.marks_.end(), [](const Mark& a, const Mark& b) { return a.t < b.t; });
  Json events = Json::array();
  for (const Mark& mark : kept.marks_) {
    const ProcessModel* process = model.Find(mark.index);
    events.push_back({{"t", absl::ToDoubleSeconds(mark.t)},
                      {"kind", NameOf(mark.kind)},
                      {"index", process != nullptr ? Json(mark.index) : Json(nullptr)},
                      {"pid", process != nullptr ? Json(process->id.pid) : Json(nullptr)},
                      {"text", TextOf(mark, model, findings)}});
  }
  (*page)["events"] = std::move(events);
  (*page)["events_dropped"] = kept.dropped_;
}

}  // namespace cowprof
