// Which processes the OOM killer chose, where no probe sees it: inferred from the kill counts of the cgroups.
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
  // At the start of the previous window and of this one. Both are renewed when kills are reported.
  std::vector<LimitSample> before_, since_;
  absl::Duration since_at_;
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_CGROUP_KILLS_H_
