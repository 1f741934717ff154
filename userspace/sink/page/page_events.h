// The marks of the page: what happened to which process, in a few words each. Bounded: if a recording has too many
// events, the least informative are dropped and counted.
#ifndef COWPROF_SINK_PAGE_PAGE_EVENTS_H_
#define COWPROF_SINK_PAGE_PAGE_EVENTS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "model/judge/findings.h"
#include "sink/marks.h"

namespace cowprof {

class PageEvents {
 public:
  static constexpr size_t kMost = 20'000;

  // `raised`: alerts on this sample; `model` already includes the sample.
  void Add(const Sample& sample, const std::vector<Alert>& raised, const RunModel& model);
  // Sets events and events_dropped. An exit is worded as in the report, which may depend on later events.
  void Write(const RunModel& model, const Findings& findings, nlohmann::ordered_json* page) const;

 private:
  void Thin();

  std::vector<Mark> marks_;
  uint64_t dropped_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_EVENTS_H_
