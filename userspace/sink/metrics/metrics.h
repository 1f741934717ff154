// A run as metrics in Prometheus' text format 0.0.4: the only place that names them. Pure. Names and labels are an
// interface; docs/fleet.md lists them.
#ifndef COWPROF_SINK_METRICS_METRICS_H_
#define COWPROF_SINK_METRICS_METRICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/judge/findings.h"
#include "posix/process_use.h"

namespace cowprof {

inline constexpr size_t kMostWorkersListed = 512;  // the others are in the sums only

// Upper bounds of the buckets of peak private memory: powers of 4 from 1 MiB to 64 GiB, then infinity.
inline constexpr size_t kPeakBuckets = 10;

// Counts of ended workers and of alerts. A run forgets single ones, and a counter must never fall.
class MetricsTally {
 public:
  // Call after each sample, which `model` already has. `raised`: alerts on this sample.
  void Append(const Sample& sample, const std::vector<Alert>& raised, const RunModel& model);

  const std::map<std::string, uint64_t>& exits() const { return exits_; }  // by cause
  uint64_t oom_kills() const { return oom_kills_; }
  // Of ended workers, unless they were summed up with others at once.
  const std::array<uint64_t, kPeakBuckets>& peaks() const { return peaks_; }  // not cumulative
  uint64_t peak_sum() const { return peak_sum_; }
  // Alerts that were raised, by kind of limit ("": none) and rule.
  const std::map<std::pair<std::string, std::string>, uint64_t>& alerts() const { return alerts_; }

 private:
  void CountEnds(const Sample& sample, const RunModel& model);

  std::map<std::string, uint64_t> exits_;
  uint64_t told_ = 0;  // sum of `exits_`
  uint64_t oom_kills_ = 0;
  std::array<uint64_t, kPeakBuckets> peaks_ = {};
  uint64_t peak_sum_ = 0;
  std::map<std::pair<std::string, std::string>, uint64_t> alerts_;
};

// `use`: of the recorder; absent: not known. `recording`: false once it has ended.
std::string MetricsText(const RunModel& model, const Findings& findings, const MetricsTally& tally,
                        const std::optional<ProcessUse>& use, bool recording);

// A label's value between its quotes. Bytes that are not UTF-8 become "\xNN", as text, and so does NUL.
std::string EscapeLabel(absl::string_view value);

}  // namespace cowprof

#endif  // COWPROF_SINK_METRICS_METRICS_H_
