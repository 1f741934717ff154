// What each remedy would have saved of the recorded run's workers, and what it costs. Pure.
#ifndef COWPROF_MODEL_JUDGE_REMEDIES_H_
#define COWPROF_MODEL_JUDGE_REMEDIES_H_

#include <optional>
#include <string>
#include <vector>

#include "model/facts/count.h"
#include "model/judge/forecast.h"
#include "model/judge/run.h"

namespace cowprof {

struct Findings;

struct Remedy {
  std::string id;      // "serialise", "gc-freeze", "spawn", ...: docs/remedies.md has all
  std::string action;  // imperative, without a full stop
  // Bytes of the workers' peak that it saves; negative: it costs them. Absent: can't be told.
  std::optional<Estimate> saves;
  Count saves_copying;       // bytes that are copied once more each epoch, and would not be; absent: not its point
  bool lifts_limit = false;  // that is what it does, instead of saving
  std::string cost;          // sentences; "": none is known
  std::optional<Estimate> cost_seconds_per_item;  // CPU time of each access; absent: not its cost, or can't be told
  std::string rests_on;                           // what the figure rests on, or why there is none
  std::string obstacle;  // what stands against it, or may: "fails at dataset.logger (a _thread.lock)"
  bool operator==(const Remedy&) const = default;
};

// The largest gain first, then those whose gain can't be told. Empty where nothing was copied or sent. `findings`
// already has its diagnoses and the split of the peak.
std::vector<Remedy> RemediesOf(const Run& run, const Findings& findings);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_REMEDIES_H_
