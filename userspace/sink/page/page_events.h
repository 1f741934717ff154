// The marks of the page: what happened to which process, in a few words each. Bounded: if a recording has too many
// events, the least informative are dropped and counted.
#ifndef COWPROF_SINK_PAGE_PAGE_EVENTS_H_
#define COWPROF_SINK_PAGE_PAGE_EVENTS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/judge/findings.h"

namespace cowprof {

class PageEvents {
 public:
  static constexpr size_t kMost = 20'000;

  // `raised`: alerts on this sample; `model` already includes the sample.
  void Add(const Sample& sample, const std::vector<Alert>& raised, const RunModel& model);
  // Sets events and events_dropped. An exit is worded as in the report, which may depend on later events.
  void Write(const RunModel& model, const Findings& findings, nlohmann::ordered_json* page) const;

 private:
  // In the order in which they are dropped.
  enum class Kind { kProcess, kExit, kNote, kExec, kSignal, kAlert, kAlertOver, kHang, kOom, kKilled };
  struct Mark {
    absl::Duration t;
    Kind kind = Kind::kNote;
    int index = -1;
    std::string text;  // "" for exits: worded in Write()
  };
  // nullopt: said elsewhere.
  static std::optional<Mark> MarkOf(const Event& event, const RunModel& model);
  void Thin();

  std::vector<Mark> marks_;
  uint64_t dropped_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_EVENTS_H_
