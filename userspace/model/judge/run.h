// A run as far as it was recorded: its model, the state of the estimators, and the alerts that were raised. Samples are
// appended one by one, live and on replay alike. Pure: no I/O, no clock.
#ifndef COWPROF_MODEL_JUDGE_RUN_H_
#define COWPROF_MODEL_JUDGE_RUN_H_

#include <vector>

#include "model/estimate/estimates.h"
#include "model/facts/run_model.h"
#include "model/judge/alert.h"

namespace cowprof {

struct Run {
  RunModel model;
  Estimates estimates;
  std::vector<Alert> alerts;  // in order of time; raised by an AlertWatch while it was recorded
};

// Adds a sample. Accepts every input: whatever it says is data.
void Append(const Sample& sample, Run* run);
// The same, with the alerts that were raised on this sample, as a recording has them.
void Append(const Sample& sample, const std::vector<Alert>& alerts, Run* run);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_RUN_H_
