// Who the OOM killer chose, where no probe sees it at work: told by the kills that the cgroups count.
#ifndef COWPROF_RECORDER_CGROUP_KILLS_H_
#define COWPROF_RECORDER_CGROUP_KILLS_H_

#include <vector>

#include "absl/time/time.h"
#include "model/facts/sample.h"

namespace cowprof {

class CgroupKills {
 public:
  // Adds an OomVictim for each process of the sample that was one. `limits`: as they are now.
  void AddVictims(const std::vector<LimitSample>& limits, Sample* sample);

 private:
  // As they were at least kKillWindow ago, and since then.
  std::vector<LimitSample> before_, since_;
  absl::Duration since_at_;
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_CGROUP_KILLS_H_
