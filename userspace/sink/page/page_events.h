// The marks of the page: what happened to which process, in a few words each. Bounded: of a recording with too many
// events, the least telling ones are left out and counted.
#ifndef COWPROF_SINK_PAGE_PAGE_EVENTS_H_
#define COWPROF_SINK_PAGE_PAGE_EVENTS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/judge/findings.h"

namespace cowprof {

class PageEvents {
 public:
  static constexpr size_t kMost = 20'000;

  // `raised`: alerts on this sample; `model` has the sample in it already.
  void Add(const Sample& sample, const std::vector<Alert>& raised, const RunModel& model);
  // Sets events and events_dropped. An exit is told as the report explains it, which may need what came later.
  void Write(const RunModel& model, const Findings& findings, nlohmann::ordered_json* page) const;

 private:
  // In the order in which they are left out.
  enum class Kind { kProcess, kExit, kNote, kExec, kSignal, kAlert, kAlertOver, kOom, kKilled };
  struct Mark {
    absl::Duration t;
    Kind kind = Kind::kNote;
    int index = -1;
    std::string text;  // of exits: "", written at the end
  };
  static Mark MarkOf(const Event& event, const RunModel& model);
  void Thin();

  std::vector<Mark> marks_;
  uint64_t dropped_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_EVENTS_H_
