// A run as metrics in Prometheus' text format 0.0.4: the only place that names them. Pure. Names and labels are an
// interface; docs/fleet.md lists them.
#ifndef COWPROF_SINK_METRICS_METRICS_H_
#define COWPROF_SINK_METRICS_METRICS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "model/judge/findings.h"
#include "posix/process_use.h"
#include "sink/metrics/metrics_tally.h"

namespace cowprof {

// Of a recorder, beside its run.
struct RecorderState {
  absl::Time sampled;  // when the last sample was taken, by the wall clock of now: it may have been set since
  std::optional<ProcessUse> use;  // absent: not known
  bool recording = true;          // false once it has ended
};
// Updates `tally` first.
std::string MetricsText(const RunModel& model, const Findings& findings, const RecorderState& recorder,
                        MetricsTally* tally);

// A label's value between its quotes. Bytes that are not UTF-8 become "\xNN", as text, and so does NUL.
std::string EscapeLabel(absl::string_view value);

}  // namespace cowprof

#endif  // COWPROF_SINK_METRICS_METRICS_H_
