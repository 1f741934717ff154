// The copies of the living workers that are still to come, and their pace. working_set_estimator.h says how many pages
// one worker will have copied in the end. Pure.
#ifndef COWPROF_MODEL_JUDGE_COPIES_AHEAD_H_
#define COWPROF_MODEL_JUDGE_COPIES_AHEAD_H_

#include "model/estimate/forecast_inputs.h"
#include "model/facts/run_model.h"
#include "model/judge/forecast.h"

namespace cowprof {

struct CopiesAhead {
  static constexpr double kNoise = 4 << 20;  // bytes; a worker that only starts usually copies less

  bool known = false;
  bool sequential = false;
  double private_bytes = 0, shared_bytes = 0;  // of the workers: what they own, and what they could still copy
  double copied_bytes = 0;                     // by them
  Estimate rest;                               // bytes; of workers that idle, the high end only
  double rate = 0;                             // bytes per second, lately: of all, over a quarter of a recent life
  double stretch = 3;                          // see PoolEstimate

  // Returns how much of `rest_bytes` comes within `seconds`: at the same pace if the data is read in order, ever slower
  // if it is shuffled, since more and more of what is read was copied before.
  double Within(double seconds, double rest_bytes) const;
};

CopiesAhead CopiesAheadOf(const RunModel& model, const ForecastInputs& inputs);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_COPIES_AHEAD_H_
