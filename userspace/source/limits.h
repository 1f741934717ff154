// Every limit that can end the target or its workers, as the target itself meets it. Reads statfs, cgroup files,
// /proc/meminfo and /proc/PID/limits; called by the collector once a tick; judges nothing.
#ifndef COWPROF_SOURCE_LIMITS_H_
#define COWPROF_SOURCE_LIMITS_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "model/sample.h"
#include "source/cgroup.h"
#include "source/procfs.h"

namespace cowprof {

// Reads below roots, so that tests pass folders.
class Limits {
 public:
  explicit Limits(ProcFs proc = ProcFs(), std::string filesystem_root = "")
      : proc_(std::move(proc)), filesystem_root_(std::move(filesystem_root)) {}

  // One row each for: shm (statfs of /dev/shm below the process's root), each memory cgroup level that has a limit and
  // the innermost one in any case, host memory, RLIMIT_AS and RLIMIT_NOFILE of the process. What can't be read has no
  // row. For cgroups `used` is the usage without file pages and reclaimable slabs, which the kernel takes back before
  // it kills; for the host MemTotal + SwapTotal against what MemAvailable + SwapFree leave.
  std::vector<LimitSample> Read(pid_t pid) const;
  // The same, of one process often: which cgroups it is in is what was so within the last second. `now`: of any one
  // clock.
  std::vector<LimitSample> Look(pid_t pid, absl::Duration now);
  // The cgroups that Read() found last, as they are now: for a process that has just ended.
  std::vector<LimitSample> ReadLastCgroups() const;
  // The file system that the process has at /dev/shm, as stat(2) numbers it; 0: none, or the process is gone.
  uint64_t ShmDevice(pid_t pid) const;
  // Gives the limit of a cgroup its whole name: of those that the process is in, the one whose directory has this
  // inode. False: it is in none such, or gone.
  bool NameCgroup(pid_t pid, uint64_t inode, LimitSample* limit) const;

 private:
  ProcFs proc_;
  std::string filesystem_root_;  // prefix of the directories in MemoryCgroup
  std::vector<LimitSample> RowsOf(pid_t pid, const std::vector<MemoryCgroup>& cgroups) const;

  mutable std::vector<MemoryCgroup> last_cgroups_;
  std::vector<MemoryCgroup> cgroups_;  // of the last Look()
  absl::Duration looked_up_ = -absl::InfiniteDuration();
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_LIMITS_H_
