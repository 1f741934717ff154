// Finds forked processes that can never go on while they are recorded, and says so in samples. Glances at every thread
// about once a second, more rarely where there are thousands, and looks into a process only if a thread of it waits
// without timeout and has not moved between two glances. A process in which nothing was found is not looked into again
// until it has moved.
//
// Decides when to look and what that may cost; hang_look looks, model/judge/hangs.h judges.
#ifndef COWPROF_RECORDER_HANG_WATCH_H_
#define COWPROF_RECORDER_HANG_WATCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "model/facts/fork_hazard.h"
#include "model/facts/sample.h"
#include "recorder/processes.h"
#include "source/native_symbols.h"
#include "source/procfs.h"
#include "source/wait_state.h"

namespace cowprof {

class HangWatch {
 public:
  // `snapshot_of`: the look at the parent near the fork of a process, by its index; null: none.
  using SnapshotOf = std::function<const ForkSnapshot*(int)>;
  HangWatch(ProcFs proc, SnapshotOf snapshot_of) : proc_(std::move(proc)), snapshot_of_(std::move(snapshot_of)) {}

  // Call once per tick, when `processes` has only those that live, and the sample its events.
  void Run(const Processes& processes, Sample* sample);
  // CPU time so far; has a bound of its own.
  absl::Duration cost() const { return cost_; }
  // Threads that the last round glanced at.
  size_t glances() const { return glances_; }

 private:
  using Glance = std::vector<ThreadGlance>;
  struct Watched {
    std::optional<bool> forked;  // and has not called exec since; absent: not asked yet
    Glance last;
    absl::Duration last_t = -absl::InfiniteDuration(), tried_t = last_t;
    // By tid: the last glance at which it was elsewhere. Infinite past: it always was as it is now.
    absl::flat_hash_map<pid_t, absl::Duration> moved;
    Glance fruitless;       // as it was when nothing was found, often enough
    int looks_in_vain = 0;  // while it did not move
    absl::Duration looked_t = -absl::InfiniteDuration(), gap;
    absl::flat_hash_set<std::pair<uint64_t, uint64_t>> seen;  // waits that were looked into, as futex and stack pointer
    std::vector<Hang> hangs;
    bool went_on_once = false;  // at the last glance
  };

  bool IsForked(pid_t pid, Watched* watched) const;
  void GlanceAt(const LivingProcess& process, Watched* watched, Sample* sample);
  void LookInto(const LivingProcess& process, const Glance& glance, Watched* watched, Sample* sample);
  void CheckHangs(const LivingProcess& process, const Glance& glance, Watched* watched, Sample* sample);
  std::vector<Hang> Find(const LivingProcess& process, const Glance& before, const Watched& watched, absl::Duration t);
  bool HasWentOn(pid_t pid, const Hang& hang, const Watched& watched, const Glance& glance) const;
  bool MayLook(bool all_wait, absl::Duration t);

  ProcFs proc_;
  SnapshotOf snapshot_of_;
  ElfCache elf_cache_;
  absl::flat_hash_map<ProcessId, Watched> watched_;
  absl::Duration next_glance_, cost_;
  absl::Duration look_allowance_ = absl::Seconds(1), allowed_t_, looked_this_tick_;
  size_t glances_ = 0;
  bool refused_ = false;  // said once
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_HANG_WATCH_H_
