// Finds which process fills a limit, and with what: the one that gained most since an earlier tick. Pure.
#ifndef COWPROF_MODEL_JUDGE_TOP_CONTRIBUTOR_H_
#define COWPROF_MODEL_JUDGE_TOP_CONTRIBUTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/facts/run_model.h"

namespace cowprof {

// What a process holds at one tick.
struct Held {
  int index = 0;
  Count private_bytes, shm_pages;
  Count anon_pages;  // in RAM and in swap, with those that it shares; read more often than private_bytes
  uint64_t inherited_copies = 0, copies_of_files = 0;
  CauseCounts causes = {};
};
using BytesByCreator = std::map<pid_t, uint64_t>;  // of shared memory
struct HeldByAll {
  std::vector<Held> processes;  // in order of index
  Count shm_bytes;              // used in the target's /dev/shm
  BytesByCreator segments;      // those listed in the latest look at it
};
HeldByAll HeldBy(const RunModel& model);

inline constexpr char kNewMemory[] = "new-memory", kSharedMemory[] = "shm", kDescriptors[] = "descriptors",
                      kMappings[] = "mappings";

struct TopContributor {
  int index = -1;            // -1: none of the followed processes, or shared memory of an unknown one
  std::string cause;         // as in Alert::cause
  double copied_bytes = 0;   // by all living ones together, of what they inherited
  double gained_bytes = 0;   // by all living ones together, with shared memory of unknown creators
  double leaving_bytes = 0;  // gained by those that have ended since the last tick
};
struct Before {
  const HeldByAll& held;
  absl::Duration last_tick;  // time of the tick before this one
};
// `gained`: what the limit's figure gained since `before.held`, in its unit; 0: not known.
TopContributor TopContributorOf(LimitKind kind, double gained, const Before& before, const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_TOP_CONTRIBUTOR_H_
