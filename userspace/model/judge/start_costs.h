// What a worker costs by each start method: the rows of one table. Pure.
#ifndef COWPROF_MODEL_JUDGE_START_COSTS_H_
#define COWPROF_MODEL_JUDGE_START_COSTS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/estimate/pickle_cost.h"
#include "model/facts/count.h"
#include "model/facts/pickle_mix.h"
#include "model/facts/start_methods.h"

namespace cowprof {

// What was measured beside the look.
struct StartCostFacts {
  Count anonymous_bytes;  // of the process
  size_t threads = 0;     // of the process; 0: unknown
  PickleMix mix;          // of what was looked at
  PickleMix sample;       // what `runs` pickled
  std::vector<PickleRun> runs;
  std::string why_no_time;  // where there are no runs
};

struct StartCost {
  absl::string_view method;        // "fork", "forkserver", "spawn"
  std::optional<bool> works;       // absent: unknown
  std::optional<PickleSize> sent;  // to each worker; absent: unknown, as without a root
  std::optional<PickleTime> time;  // for each worker; absent: not measured
  std::optional<PickleSize> held;  // by each worker, at most `high`, beside what it makes or imports itself
};

// Fork, forkserver, spawn. What fails to pickle is in none of the figures.
std::vector<StartCost> StartCostsOf(const PickleLook& look, const StartCostFacts& facts);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_START_COSTS_H_
