// What the metrics count beside the run: a run forgets single processes and alerts, and thinks better of what a process
// is, but a counter must never fall.
#ifndef COWPROF_SINK_METRICS_METRICS_TALLY_H_
#define COWPROF_SINK_METRICS_METRICS_TALLY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/facts/run_model.h"
#include "model/judge/alert.h"

namespace cowprof {

// Upper bounds of the buckets of peak private memory: powers of 4 from 1 MiB to 64 GiB, then infinity.
inline constexpr size_t kPeakBuckets = 10;

inline constexpr size_t kMostWorkersListed = 512;  // the others are in the sums only

// Labels of a living worker.
struct WorkerName {
  std::string rank, number;  // `number`: the worker_id of a DataLoader, otherwise the lowest that was free
  std::string worker;        // `number`, with a suffix if another has it, as in a second DataLoader
};

class MetricsTally {
 public:
  // Call after each sample, which `model` already has. `raised`: alerts on this sample.
  void Append(const Sample& sample, const std::vector<Alert>& raised, const RunModel& model);
  // Call before each text. `workers`: the sum over all workers, living or not.
  void Update(const RunModel& model, const Totals& workers);

  // Of all workers, each the highest value of all updates: a process that turns out to be no worker takes nothing off.
  // Causes together are at most copies().
  uint64_t starts() const { return starts_; }
  Count copies() const { return copies_; }
  const std::optional<CauseCounts>& causes() const { return causes_; }
  Count new_pages() const { return new_pages_; }

  // By index. Each keeps its name while it lives, so that its series does not go on with the values of another.
  const std::map<int, WorkerName>& workers() const { return workers_; }

  const std::map<std::string, uint64_t>& exits() const { return exits_; }  // by cause
  uint64_t oom_kills() const { return oom_kills_; }
  // Of ended workers.
  const std::array<uint64_t, kPeakBuckets>& peaks() const { return peaks_; }  // not cumulative
  uint64_t peak_sum() const { return peak_sum_; }
  // Alerts that were raised, by kind of limit ("": none) and rule.
  const std::map<std::pair<std::string, std::string>, uint64_t>& alerts() const { return alerts_; }

 private:
  void CountEnds(const Sample& sample, const RunModel& model);
  void NameWorkers(const RunModel& model);

  uint64_t starts_ = 0;
  Count copies_, new_pages_;
  std::optional<CauseCounts> causes_;
  CauseCounts causes_then_ = {};  // of the workers, at the last update
  std::map<int, WorkerName> workers_;
  std::map<std::string, uint64_t> exits_;
  uint64_t oom_kills_ = 0;
  std::array<uint64_t, kPeakBuckets> peaks_ = {};
  uint64_t peak_sum_ = 0;
  std::map<std::pair<std::string, std::string>, uint64_t> alerts_;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_METRICS_METRICS_TALLY_H_
