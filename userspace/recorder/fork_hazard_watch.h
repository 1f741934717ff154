// Decides when a process is looked at for what its forks may leave behind: at the attach, and right after it forked,
// while the child still runs its program. Puts into samples what has changed since the look before.
#ifndef COWPROF_RECORDER_FORK_HAZARD_WATCH_H_
#define COWPROF_RECORDER_FORK_HAZARD_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "attribution/programs.h"
#include "model/facts/fork_hazard.h"
#include "model/facts/sample.h"
#include "recorder/processes.h"
#include "source/procfs.h"

namespace cowprof {

class ForkHazardWatch {
 public:
  // `now`: the time since the start of the recording.
  ForkHazardWatch(ProcFs proc, std::function<absl::Duration()> now) : proc_(std::move(proc)), now_(std::move(now)) {}

  // Call as soon as a sample has its starts and execs: each millisecond counts.
  void AfterForks(const Processes& processes, const Programs& programs, Sample* sample);
  // Call once what the processes run is known, before those that end are forgotten. Looks at what AfterForks() could
  // not yet, and at processes that were there at the attach.
  void AfterPrograms(const Processes& processes, const Programs& programs, Sample* sample);

  // It has ended, or runs another program.
  void Forget(int index) { known_.erase(index), waiting_.erase(index), at_fork_.erase(index); }

  // Of the parent of the process `index`; null: nobody looked.
  const ForkSnapshot* SnapshotOf(int index) const;

  // Whether it is worth waking up for a fork; true is given as often as one may.
  bool TakeWake(absl::Duration t);

 private:
  struct Known {
    std::vector<pid_t> tids;      // at the last look
    std::vector<HeldLock> locks;  // as told last
    bool told = false;            // threads
    bool has_python = false;      // threads of Python beside the one that forks
    uint64_t looks = 0;
    std::shared_ptr<const ForkHazardSeen> last;  // told or not
    absl::Duration last_end;
    absl::Duration next_look = -absl::InfiniteDuration();
  };
  struct Child {
    int index = -1;
    ProcessId id;
    absl::Duration t;  // of its fork
  };
  // What a look waits for: the last child's fork, or the attach.
  struct Fork {
    Child child;                  // index -1: none, at the attach
    std::vector<Child> children;  // all since the last look, at most kMostChildren
  };
  static constexpr size_t kMostChildren = 256;

  void Look(const LivingProcess& process, const Fork& fork, const Processes& processes, const Programs& programs,
            bool last_chance, Sample* sample);
  void KeepFor(const std::vector<Child>& children, const Known& known, const Processes& processes);

  ProcFs proc_;
  std::function<absl::Duration()> now_;
  std::map<int, Known> known_;           // by index of the process that forks
  std::map<int, Fork> waiting_;          // the same: to be looked at
  std::map<int, ForkSnapshot> at_fork_;  // by index of the child
  uint64_t attach_looks_ = 0;
  double wakes_ = kMostWakes;
  absl::Duration last_t_, next_wake_;
  static constexpr double kMostWakes = 30, kWakesPerSecond = 0.2;
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_FORK_HAZARD_WATCH_H_
