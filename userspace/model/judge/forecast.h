// Forecasts how far memory will grow: the ceiling of what copying can cost, the plateau ahead, and which limit is met
// when. Pure: no I/O, no clock.
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

// An estimate with an interval that holds the truth nine times out of ten.
struct Estimate {
  double low = 0, best = 0, high = 0;
  bool operator==(const Estimate&) const = default;
};

inline constexpr double kTightFrom = 0.95;  // of a limit: from there on it is tight

struct LimitForecast {
  LimitSample now;
  Estimate peak;                      // most that will be used, in the limit's unit; infinite if growth is unbounded
  std::optional<absl::Duration> eta;  // from now until it is met, by the best estimate; absent: it is not met
  std::optional<absl::Duration> eta_earliest;  // by the high estimate
  double per_second = 0;                       // at which it fills now, in the limit's unit; 0: it does not
  Outlook outlook = Outlook::kUnknown;
  bool operator==(const LimitForecast&) const = default;
};

struct Alert;

struct Forecast {
  std::optional<Shape> shape;  // absent: too little was seen
  // Bytes, of all living processes together; the ceiling is what they own plus all that they could still copy.
  uint64_t private_bytes = 0, still_shared_bytes = 0, ceiling_bytes = 0;
  uint64_t workers_bytes = 0;      // private to the living workers
  uint64_t next_worker_bytes = 0;  // what one more worker, forked now, could copy at most
  bool forked = false;             // a worker was seen
  bool of_worker = false;          // the target is one itself: TargetIsWorker()
  uint64_t living_workers = 0;
  bool grows = false;                     // a finding saw growth that the trends of the forecast miss (HeedGrowth)
  bool still_since_attach = false;        // the living workers were found at the attach, and nothing has grown since
  bool workers_known = false;             // the private memory of at least one living worker is known
  uint64_t reached_bytes = 0;             // most that the workers owned together so far
  std::optional<Estimate> plateau_bytes;  // what the workers will own together; absent: can't be told yet
  bool plateau_of_earlier = false;        // `plateau_bytes` is what earlier workers reached
  bool plateau_known = false;             // how far copies will come; otherwise limits are judged by the ceiling
  std::optional<Estimate> plateau_eta_seconds;  // from now until 95 % of what is still to come was copied
  double unbounded_bytes_per_second = 0;        // new memory and /dev/shm
  // Of /dev/shm alone; and of shared memory that has no name there. Bytes per second, 0 where it does not grow.
  double shm_bytes_per_second = 0, unnamed_bytes_per_second = 0;
  bool ended = false;                 // the target has ended: figures are what was reached
  bool sawtooth = false;              // memory comes back when workers end, again and again
  std::vector<LimitForecast> limits;  // those of RunModel::limits that have a limit
  // By processes other than workers: bytes per second that they copy, and at most what they still share.
  double others_copy_per_second = 0;
  uint64_t others_share_bytes = 0;
  int first_limit = -1;    // number in `limits` of the one that is met first; -1: none
  int nearest_limit = -1;  // the same or, if none is met, the one whose peak fills it most; -1: no limit
  Outlook outlook = Outlook::kUnknown;
  std::string sentence;  // "plateaus at 41.0 GiB in about 12 min; from now on up to 45.2 GiB of 64.0 GiB in use (cgroup
                         // /job): safe"
  bool operator==(const Forecast&) const = default;
};

// Whether most of what grows without an end in sight is in /dev/shm.
inline bool GrowsByShm(const Forecast& forecast) {
  return forecast.unbounded_bytes_per_second > 0 &&
         2 * forecast.shm_bytes_per_second >= forecast.unbounded_bytes_per_second;
}

Forecast ForecastOf(const RunModel& model, const ForecastInputs& inputs);
// Takes back that a limit is safe, and that nothing grows, while an alert says that it will soon be met: what a worker
// takes as it starts is in the alert, and not in the trends of a forecast. Changes nothing of a limit that will be met.
void Heed(const std::vector<const Alert*>& standing, absl::Duration now, Forecast* forecast);
// Takes back that nothing grows, and that limits of memory are safe, where a finding says that it grows: the growth is
// too young, or too slow, for the trends of a forecast. Or shared memory without a name grows: how large what is mapped
// can become, nobody knows.
void HeedGrowth(Forecast* forecast);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_FORECAST_H_
