#include "model/judge/start_costs.h"

#include "model/judge/start_methods.h"

namespace cowprof {

std::vector<StartCost> StartCostsOf(const PickleLook& look, const StartCostFacts& facts) {
  StartCost fork = {.method = "fork", .works = true, .sent = PickleSize{.high = 0}, .time = {}, .held = {}};
  // It copies what is written to, so nothing at least.
  if (facts.anonymous_bytes) fork.held = PickleSize{.best = *facts.anonymous_bytes, .high = facts.anonymous_bytes};
  StartCost pickled = {.method = "forkserver", .works = {}, .sent = {}, .time = {}, .held = {}};
  if (!look.root.empty()) {
    const PickleVerdict verdict = VerdictOf(look);
    if (verdict != PickleVerdict::kUnknown) pickled.works = verdict == PickleVerdict::kNoObstacleFound;
    const bool whole = look.bytes.high.has_value();
    pickled.sent = look.bytes;
    if (!facts.runs.empty()) pickled.time = TimeOf(facts.mix, facts.sample, facts.runs, whole);
    pickled.held = UnpickledBytes(facts.mix, whole);
  }
  StartCost spawn = pickled;
  spawn.method = "spawn";
  return {fork, pickled, spawn};
}

}  // namespace cowprof
