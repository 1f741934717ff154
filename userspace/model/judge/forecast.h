// How far it will go: the ceiling of what copying can cost, the plateau that it heads for, and which limit is met when.
// Pure: no I/O, no clock. Called by the loop once a tick, by the sinks and by the alerts.
#ifndef COWPROF_MODEL_JUDGE_FORECAST_H_
#define COWPROF_MODEL_JUDGE_FORECAST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/estimate/forecast_inputs.h"
#include "model/facts/run_model.h"

namespace cowprof {

enum class Shape { kFlat, kBounded, kUnbounded };
template <>
inline constexpr auto kNamesOf<Shape> = NamesFor<Shape>("flat", "bounded", "unbounded");

enum class Outlook { kSafe, kTight, kWillExceed, kUnknown };
template <>
inline constexpr auto kNamesOf<Outlook> = NamesFor<Outlook>("safe", "tight", "will-exceed", "unknown");

// An estimate with the interval in which the truth lies nine times of ten.
struct Estimate {
  double low = 0, best = 0, high = 0;
  bool operator==(const Estimate&) const = default;
};

inline constexpr double kTightFrom = 0.95;  // of a limit: from there on it is tight

struct LimitForecast {
  LimitSample now;
  Estimate peak;                      // most that will be used, in the limit's unit; of unbounded growth infinite
  std::optional<absl::Duration> eta;  // from now until it is met, by the best estimate; absent: it is not met
  std::optional<absl::Duration> eta_earliest;  // by the worst one
  Outlook outlook = Outlook::kUnknown;
  bool operator==(const LimitForecast&) const = default;
};

struct Forecast {
  std::optional<Shape> shape;  // absent: too little was seen
  // Bytes. Of all living processes together; what all copies that are still possible can cost at most.
  uint64_t private_bytes = 0, still_shared_bytes = 0, ceiling_bytes = 0;
  uint64_t workers_bytes = 0;                   // private to the living workers
  uint64_t next_worker_bytes = 0;               // at most: what one more worker, forked now, could copy of the target
  bool forked = false;                          // a worker was seen
  std::optional<Estimate> plateau_bytes;        // of what the workers own together, where copies are what grows
  std::optional<Estimate> plateau_eta_seconds;  // from now until 95 % of what is still to come was copied
  double unbounded_bytes_per_second = 0;        // new memory and shared memory
  bool ended = false;                           // the target has: figures are what was reached
  bool sawtooth = false;                        // memory comes back when workers end, again and again
  std::vector<LimitForecast> limits;            // those of growth.limits that have a limit
  int first_limit = -1;                         // number in `limits` of the one that is met first; -1: none
  int nearest_limit = -1;  // the same or, where none is met, what fills its limit most; -1: no limit
  Outlook outlook = Outlook::kUnknown;
  std::string sentence;  // "plateaus at 41 GB in about 12 min; limit 64 GB: safe"
  bool operator==(const Forecast&) const = default;
};

Forecast ForecastOf(const RunModel& model, const ForecastInputs& inputs);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_FORECAST_H_
