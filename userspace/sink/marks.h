// What happened to which process at which moment, in a few words: the marks of the page and of a trace. Pure.
#ifndef COWPROF_SINK_MARKS_H_
#define COWPROF_SINK_MARKS_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "model/facts/enum_names.h"
#include "model/judge/findings.h"

namespace cowprof {

// The least informative first: the page drops them in this order.
enum class MarkKind { kProcess, kExit, kNote, kExec, kSignal, kAlert, kAlertOver, kHang, kOom, kKilled };
template <>
inline constexpr auto kNamesOf<MarkKind> = NamesFor<MarkKind>("process", "exit", "note", "exec", "signal", "alert",
                                                              "alert-over", "hang", "oom", "killed");

struct Mark {
  absl::Duration t;
  MarkKind kind = MarkKind::kNote;
  int index = -1;    // of the process; -1: none
  std::string text;  // "" for exits: see TextOf()
};
// `model` already includes the event's sample. nullopt: said elsewhere.
std::optional<Mark> MarkOf(const Event& event, const RunModel& model);
Mark MarkOf(const Alert& alert);

// At the end of the run: an exit is worded as in the report, which may depend on later events.
std::string TextOf(const Mark& mark, const RunModel& model, const Findings& findings);

}  // namespace cowprof

#endif  // COWPROF_SINK_MARKS_H_
