// What sending objects to a worker costs beside their bytes: the time, from what a sample of them took, and the memory
// that they take in the worker. Pure.
#ifndef COWPROF_MODEL_ESTIMATE_PICKLE_COST_H_
#define COWPROF_MODEL_ESTIMATE_PICKLE_COST_H_

#include <optional>
#include <string>
#include <vector>

#include "model/facts/count.h"
#include "model/facts/pickle_mix.h"
#include "model/facts/start_methods.h"

namespace cowprof {

struct SecondsRange {
  double low = 0, best = 0;
  std::optional<double> high;  // absent: a part of what is sent is not in it
};
struct PickleTime {
  SecondsRange pickle, unpickle;  // CPU time, for each worker
};

// Objects of the same mix: large enough to measure, and at most as many as fit the time.
PickleMix SampleOf(const PickleMix& mix);
// What the whole takes, by what a sample of it took. `whole`: nothing that is sent was left out of the mix.
PickleTime TimeOf(const PickleMix& mix, const PickleMix& sample, const std::vector<PickleRun>& runs, bool whole);

// The memory that the objects take in a worker once they are unpickled.
PickleSize UnpickledBytes(const PickleMix& mix, bool whole);

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_PICKLE_COST_H_
