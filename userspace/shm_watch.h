// When to look at shared memory while a recording runs: at its start, then now and then if something changed, at once
// while it fills up, and at the end. Called by the collector once a tick; what a look finds is source/shm.h's.
#ifndef COWPROF_SHM_WATCH_H_
#define COWPROF_SHM_WATCH_H_

#include <sys/types.h>

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "model/sample.h"
#include "source/shm.h"

namespace cowprof {

struct ShmTick {
  absl::Duration t, interval;
  pid_t target = 0;
  bool target_alive = true, last = false;
  const LimitSample* mount = nullptr;  // what the target's mount has now; null: it has none
  bool processes_changed = false;      // one came or ended since the last tick
};

class ShmWatch {
 public:
  explicit ShmWatch(const ProcFs& proc) : proc_(proc) {}

  // What a look that ended with this tick found. `followed()` is called only where a look begins.
  template <typename ListFollowed>
  std::optional<ShmSample> Run(const ShmTick& tick, ListFollowed followed) {
    if (!tick.target_alive || tick.last) return LookLast(tick, followed());
    NoteChanges(tick);
    if (!look_ && IsDue(tick)) Begin(tick, followed());
    return look_ ? GoOn(tick) : std::nullopt;
  }
  absl::Duration cost() const { return cost_; }  // CPU time so far

 private:
  void NoteChanges(const ShmTick& tick);
  bool IsDue(const ShmTick& tick);
  void Begin(const ShmTick& tick, std::vector<pid_t> followed);
  std::optional<ShmSample> GoOn(const ShmTick& tick);
  std::optional<ShmSample> LookLast(const ShmTick& tick, std::vector<pid_t> followed);
  bool RunLook(absl::Duration budget);
  ShmSample TakeLook();
  std::optional<pid_t> ViewerAfterEnd(pid_t target);

  ProcFs proc_;
  std::optional<ShmLook> look_;
  bool whole_ = true;                // the one that goes on, or is due
  std::optional<ShmSample> before_;  // the last whole one
  absl::Duration next_whole_, next_quick_;
  uint64_t used_then_ = 0;                           // when the last look began
  bool changed_ = true;                              // since then
  absl::Time names_changed_ = absl::InfinitePast();  // the last time that a name came or went
  absl::Duration cost_, look_cost_;
};

}  // namespace cowprof

#endif  // COWPROF_SHM_WATCH_H_
