// Everything that the judgement of a run has to remember beyond its model: inputs of the forecast, and each process's
// memory over its life. Bounded, whatever the recording's length. Pure.
#ifndef COWPROF_MODEL_ESTIMATE_ESTIMATES_H_
#define COWPROF_MODEL_ESTIMATE_ESTIMATES_H_

#include <map>

#include "model/estimate/forecast_inputs.h"
#include "model/estimate/memory_series.h"
#include "model/facts/run_model.h"

namespace cowprof {

struct Estimates {
  ForecastInputs forecast;
  std::map<int, MemorySeries> memory;  // by process; of those in RunModel::processes that were seen in /proc

  const MemorySeries& MemoryOf(int index) const;  // empty where nothing is known
};

// Takes in what `sample` added; `model` has it already.
void Remember(const Sample& sample, const RunModel& model, Estimates* estimates);
// Drops what is kept of processes that the model lists no more.
void ForgetUnlisted(const RunModel& model, Estimates* estimates);

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_ESTIMATES_H_
