// Reads every limit that can end the target or its workers: statfs, cgroup files and /proc/meminfo as they apply to the
// target, and /proc/PID/limits of it or of the process below it that is nearest to its own. Judges nothing.
#ifndef COWPROF_SOURCE_LIMITS_H_
#define COWPROF_SOURCE_LIMITS_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "model/facts/sample.h"
#include "source/cgroup.h"
#include "source/procfs.h"

namespace cowprof {

// The living processes below the target, or itself, that have the most of what each process has a limit of its own for;
// 0: not known.
struct Holders {
  pid_t descriptors = 0, address_space = 0;
  uint64_t mappings = 0;  // how many, and not whose: the kernel has one limit for all
};

// Both roots are prefixes, so that tests can pass folders.
class Limits {
 public:
  explicit Limits(ProcFs proc = ProcFs(), std::string filesystem_root = "")
      : proc_(std::move(proc)), filesystem_root_(std::move(filesystem_root)) {}

  // One row each for shm (statfs of /dev/shm below the process's root), every memory cgroup level with a limit and in
  // any case the innermost, host memory, what the host lets processes commit (vm.overcommit_memory=2), RLIMIT_AS and
  // RLIMIT_NOFILE (of the target, or of the holder if that is nearer to its limit), and vm.max_map_count once a tenth
  // of it was used. What can't be read has no row. `used` of a cgroup excludes file pages and reclaimable slabs, which
  // the kernel reclaims before it kills; `used` of the host is MemTotal + SwapTotal minus MemAvailable and SwapFree,
  // without swap on zram, and minus what ZFS's cache gives back. Of a process that is exiting, the cgroups are those of
  // the last call, which must have been about the same process.
  std::vector<LimitSample> Read(pid_t pid, const Holders& holders = {}) const;
  // The same, for frequent calls about one process: its list of cgroups may be up to a second old. `now`: of any
  // monotonic clock.
  std::vector<LimitSample> Look(pid_t pid, const Holders& holders, absl::Duration now);
  // Whether a limit that had a row, and none in the last Read(), is known to limit the process no more: it was lifted,
  // or the process was moved. False: it can't be read.
  bool IsLifted(pid_t pid, const Holders& holders, const LimitSample& before) const;
  // The current state of the cgroups that the last Read() found: for a process that has just ended.
  std::vector<LimitSample> ReadLastCgroups() const;
  // st_dev of the file system that the process has at /dev/shm; 0: none, or the process is gone.
  uint64_t ShmDevice(pid_t pid) const;
  // Whether that is what process 1 of this /proc has at /dev/shm. False: it is not, or it is not known.
  bool SharesShmWithInit(pid_t pid) const;
  // Completes the name of a cgroup limit: among the cgroups of the process, finds the one whose directory has this
  // inode. False: there is none, or the process is gone.
  bool NameCgroup(pid_t pid, uint64_t inode, LimitSample* limit) const;

 private:
  ProcFs proc_;
  std::string filesystem_root_;  // prefix of the directories in MemoryCgroup
  std::vector<LimitSample> RowsOf(pid_t pid, const Holders& holders, const std::vector<MemoryCgroup>& cgroups) const;

  mutable std::vector<MemoryCgroup> last_cgroups_;
  mutable bool strict_accounting_ = false;  // as of the last Read()
  mutable bool shows_mappings_ = false;     // a Read() had a row of them
  std::vector<MemoryCgroup> cgroups_;       // of the last Look()
  absl::Duration looked_up_ = -absl::InfiniteDuration();
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_LIMITS_H_
