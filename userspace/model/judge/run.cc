// The order in which a sample reaches the parts of a run: facts first, then what remembers them.
#include "model/judge/run.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "model/facts/ended_aggregate.h"

namespace cowprof {
namespace {

void DropOldest(std::vector<Alert>* alerts) {
  if (alerts->size() <= kMostAlerts) return;
  const std::vector<const Alert*> list = StandingOf(*alerts);
  const absl::flat_hash_set<const Alert*> standing(list.begin(), list.end());
  std::vector<Alert> kept;
  size_t surplus = alerts->size() - kMostAlerts;
  for (Alert& alert : *alerts) {
    if (surplus > 0 && !standing.contains(&alert)) {
      --surplus;
    } else {
      kept.push_back(std::move(alert));
    }
  }
  *alerts = std::move(kept);
}

}  // namespace

void Append(const Sample& sample, Run* run) {
  Append(sample, &run->model);
  Remember(sample, run->model, &run->estimates);
  AggregateEnded(&run->model);
  ForgetUnlisted(run->model, &run->estimates);
}

void AddAlerts(const std::vector<Alert>& raised, Run* run) {
  for (const Alert& alert : raised) {
    if (!alert.over && !run->first_alert) run->first_alert = alert;
    run->alerts.push_back(alert);
  }
  DropOldest(&run->alerts);
}

void Append(const Sample& sample, const std::vector<Alert>& raised, Run* run) {
  Append(sample, run);
  AddAlerts(raised, run);
}

}  // namespace cowprof
