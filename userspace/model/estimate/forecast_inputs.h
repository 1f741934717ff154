// What a forecast has to remember of a recording: short series of what was copied, of new memory and of each limit's
// use, the generations of workers, and where copies fell. Bounded: some 3 MiB at most, whatever the recording's length.
// Pure.
#ifndef COWPROF_MODEL_ESTIMATE_FORECAST_INPUTS_H_
#define COWPROF_MODEL_ESTIMATE_FORECAST_INPUTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "model/estimate/robust_slope.h"
#include "model/estimate/working_set_estimator.h"
#include "model/facts/run_model.h"

namespace cowprof {

struct ForecastInputs {
  Series copied_bytes;  // by all processes, ended ones too: never falls
  Series new_bytes;     // anonymous memory of the living beyond what each had when it was first seen; shared memory
  // Use of each limit (by its number in RunModel::limits) beyond what the living have copied, which is charged to host
  // and cgroup. A worker that ends takes its copies out of both.
  std::vector<Series> beyond_copies;
  std::vector<uint64_t> earlier_peaks;       // of each limit's use: while the generations lived that have ended
  std::map<int, WorkingSetEstimator> pools;  // by address space

  // Workers that are forked, live and end together, as those of an epoch.
  int generations = 0;                                      // that have ended, and were followed by another
  size_t generation_workers = 0;                            // of the last one: most that lived together
  size_t generation_ended = 0;                              // and how many of it have ended
  uint64_t generation_bytes = 0, earlier_bytes = 0;         // most that was private to them: this one; those before
  uint64_t peak_private_bytes = 0, peak_ceiling_bytes = 0;  // of all living processes together
};

// Whether most of the last generation has ended.
inline bool GenerationIsOver(const ForecastInputs& inputs) {
  return inputs.generation_workers > 0 && 4 * inputs.generation_ended >= 3 * inputs.generation_workers;
}

// Takes in what `sample` added; to be called last, when the growth is up to date.
void Remember(const Sample& sample, const RunModel& model, ForecastInputs* inputs);

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_FORECAST_INPUTS_H_
