// The target's limits, and what must be remembered of them after its end: the names of its cgroups and the device of
// its /dev/shm.
#ifndef COWPROF_RECORDER_TARGET_LIMITS_H_
#define COWPROF_RECORDER_TARGET_LIMITS_H_

#include <sys/types.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "model/facts/sample.h"
#include "source/limits.h"

namespace cowprof {

class TargetLimits {
 public:
  explicit TargetLimits(Limits limits) : limits_(std::move(limits)) {}

  // Reads all limits, once per tick. One that is gone, as the target was moved or the limit lifted, is there once more,
  // without a limit; not one that can't be read, and not if the target is `exiting`.
  std::vector<LimitSample> Read(pid_t target, bool exiting, const Holders& holders);
  // Reads them between two ticks: cheap enough for several times.
  std::vector<LimitSample> Look(pid_t target, absl::Duration now) { return limits_.Look(target, holders_, now); }
  // The cgroups of the last Read(), as they are now.
  std::vector<LimitSample> ReadLastCgroups() const { return limits_.ReadLastCgroups(); }

  // Completes a cgroup's name. `inode`: of its directory; `process`: one that is in it, and may be gone.
  void NameCgroup(pid_t process, uint64_t inode, LimitSample* limit) const;
  // The file system that the target has at /dev/shm; 0: not known yet.
  uint64_t shm_device() const { return shm_device_; }

 private:
  Limits limits_;
  Holders holders_;                // of the last Read()
  std::vector<LimitSample> last_;  // what it read, and what was there before and can't be read
  std::vector<LimitSample> cgroups_seen_;
  uint64_t shm_device_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_TARGET_LIMITS_H_
