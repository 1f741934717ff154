// A run as metrics in Prometheus' text format 0.0.4: the only place that names them. Pure. Names and labels are an
// interface; docs/fleet.md lists them.
#ifndef COWPROF_SINK_METRICS_METRICS_H_
#define COWPROF_SINK_METRICS_METRICS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "model/judge/findings.h"
#include "posix/process_use.h"
#include "sink/metrics/metrics_tally.h"

namespace cowprof {

inline constexpr size_t kMostWorkersListed = 512;  // the others are in the sums only

// Updates `tally` first. `use`: of the recorder; absent: not known. `recording`: false once it has ended.
std::string MetricsText(const RunModel& model, const Findings& findings, const std::optional<ProcessUse>& use,
                        bool recording, MetricsTally* tally);

// A label's value between its quotes. Bytes that are not UTF-8 become "\xNN", as text, and so does NUL.
std::string EscapeLabel(absl::string_view value);

}  // namespace cowprof

#endif  // COWPROF_SINK_METRICS_METRICS_H_
