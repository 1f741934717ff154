// Who it is that fills a limit, and with what: the process that gained most between two ticks. Pure; called by the
// alerts.
#ifndef COWPROF_MODEL_JUDGE_TOP_CONTRIBUTOR_H_
#define COWPROF_MODEL_JUDGE_TOP_CONTRIBUTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/facts/run_model.h"

namespace cowprof {

// What a process holds at one tick.
struct Held {
  int index = 0;
  Count private_bytes, shm_pages;
  uint64_t copies = 0;
  CauseCounts causes = {};
};
std::vector<Held> HeldBy(const RunModel& model);  // in the order of their index

inline constexpr char kNewMemory[] = "new-memory", kSharedMemory[] = "shm", kDescriptors[] = "descriptors";

struct TopContributor {
  int index = -1;            // -1: none of the processes that are followed
  std::string cause;         // as Alert has it
  double copied_bytes = 0;   // by all of them together
  double gained_bytes = 0;   // by all of them together, copies and what is new
  double leaving_bytes = 0;  // what those had gained that have ended since the last tick
};
struct Before {
  const std::vector<Held>& held;  // what they held
  absl::Duration last_tick;       // when the tick before this one was
};
// `gained`: what the limit's figure gained since they held that, in its unit.
TopContributor TopContributorOf(LimitKind kind, double gained, const Before& before, const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_TOP_CONTRIBUTOR_H_
