// A run as far as it was recorded: its model, the state of the estimators, and the alerts that were raised. Samples are
// appended one by one, live and on replay alike. Pure: no I/O, no clock.
#ifndef COWPROF_MODEL_JUDGE_RUN_H_
#define COWPROF_MODEL_JUDGE_RUN_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "model/estimate/estimates.h"
#include "model/facts/run_model.h"
#include "model/judge/alert.h"

namespace cowprof {

struct Run {
  RunModel model;
  Estimates estimates;
  // In order of time; raised by an AlertWatch while it was recorded. At most kMostAlerts: then the oldest are dropped
  // that do not stand any more.
  std::vector<Alert> alerts;
  std::optional<Alert> first_alert;  // that was raised, whether or not it is still in `alerts`
};
inline constexpr size_t kMostAlerts = 1000;

// Adds a sample. Accepts every input: whatever it says is data.
void Append(const Sample& sample, Run* run);
// Adds alerts that were raised on the sample that was added last.
void AddAlerts(const std::vector<Alert>& raised, Run* run);
// A sample with the alerts that were raised on this sample, as a recording has them.
void Append(const Sample& sample, const std::vector<Alert>& raised, Run* run);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_RUN_H_
