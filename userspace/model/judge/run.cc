// The order in which a sample reaches the parts of a run: facts first, then what remembers them.
#include "model/judge/run.h"

#include "model/facts/ended_aggregate.h"

namespace cowprof {

void Append(const Sample& sample, Run* run) {
  Append(sample, &run->model);
  Remember(sample, run->model, &run->estimates);
  AggregateEnded(&run->model);
  ForgetUnlisted(run->model, &run->estimates);
}

void Append(const Sample& sample, const std::vector<Alert>& alerts, Run* run) {
  Append(sample, run);
  run->alerts.insert(run->alerts.end(), alerts.begin(), alerts.end());
}

}  // namespace cowprof
