// What judging a run needs beyond its model: inputs of the forecast, and each process's memory over its life. Bounded,
// however long the recording. Pure.
#ifndef COWPROF_MODEL_ESTIMATE_ESTIMATES_H_
#define COWPROF_MODEL_ESTIMATE_ESTIMATES_H_

#include <map>

#include "model/estimate/forecast_inputs.h"
#include "model/estimate/memory_series.h"
#include "model/facts/run_model.h"

namespace cowprof {

struct Estimates {
  ForecastInputs forecast;
  std::map<int, MemorySeries> memory;  // by process index; of those in RunModel::processes that were seen in /proc

  const MemorySeries& MemoryOf(int index) const;  // empty if nothing is known
};

// Adds what is new in `sample`, which `model` already has.
void Remember(const Sample& sample, const RunModel& model, Estimates* estimates);
// Drops what is kept of processes that the model no longer lists.
void ForgetUnlisted(const RunModel& model, Estimates* estimates);

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_ESTIMATES_H_
