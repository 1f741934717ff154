// What a forecast needs to remember of a recording: short series of what was copied, of new memory and of each limit's
// use, the generations of workers, and where copies fell. Bounded: some 3 MiB at most, however long the recording.
// Pure.
#ifndef COWPROF_MODEL_ESTIMATE_FORECAST_INPUTS_H_
#define COWPROF_MODEL_ESTIMATE_FORECAST_INPUTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "model/estimate/outside_growth.h"
#include "model/estimate/robust_slope.h"
#include "model/estimate/start_up.h"
#include "model/estimate/working_set_estimator.h"
#include "model/facts/run_model.h"

namespace cowprof {

// Workers that are forked, live and end together, such as those of an epoch.
struct Generation {
  size_t workers = 0;                       // most that lived at once
  bool of_loader = false, of_pool = false;  // some are known to be of PyTorch's DataLoader; of a pool
  double began = 0, seconds = 0;            // while any lived; infinite if one was older than the recording
  uint64_t bytes = 0;                       // most private memory of all of them
  std::vector<uint64_t> peaks;              // of the use of each limit, until the next generation began
};

struct ForecastInputs {
  Series copied_bytes;  // by workers, ended ones too; falls only where copies turn out to be of files, or roles change
  // Anonymous memory of living processes beyond what each had when first seen and took by starting, plus shared memory.
  Series new_bytes;
  Series copied_outside;  // by living processes other than workers
  // Shared memory that living processes added and still map, beyond what /dev/shm gained: without a name there.
  Series unnamed_bytes;
  // Use of each limit (indexed like RunModel::limits) beyond what living processes have copied and took by starting,
  // which is charged to host and cgroup. A worker that ends takes both out again.
  std::vector<Series> beyond_copies;
  // `new_bytes`, and the use of limits of memory, without all that workers own; from the first worker on.
  OutsideGrowth new_outside;
  std::vector<OutsideGrowth> outside;
  std::map<int, WorkingSetEstimator> pools;  // by address space
  StartUp start_up;

  int generations = 0;              // that have ended, and were followed by another
  Generation generation;            // the current one
  size_t generation_ended = 0;      // how many of its workers have ended
  std::vector<Generation> earlier;  // the latest of those that have ended
  double last_fork = 0;             // of a worker
  // What the current generation is expected to reach, and each limit meanwhile, as those before it of its kind did that
  // lived as long as it has now; between two generations, as any did. 0: none was like it.
  uint64_t earlier_bytes = 0;
  std::vector<uint64_t> earlier_peaks;
  uint64_t peak_private_bytes = 0, peak_ceiling_bytes = 0;  // of all living processes together
};

// Whether at least three quarters of the current generation have ended.
inline bool GenerationIsOver(const ForecastInputs& inputs) {
  return inputs.generation.workers > 0 && 4 * inputs.generation_ended >= 3 * inputs.generation.workers;
}

// Adds what is new in `sample`. Call it last, when `model` is up to date.
void Remember(const Sample& sample, const RunModel& model, ForecastInputs* inputs);

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_FORECAST_INPUTS_H_
