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
    if (!quick_.look && IsQuickDue(tick)) Begin(tick, /*whole=*/false, followed());
    if (quick_.look) return GoOn(tick, &quick_);
    if (!whole_.look && changed_ && tick.t >= whole_.next) Begin(tick, /*whole=*/true, followed());
    return whole_.look ? GoOn(tick, &whole_) : std::nullopt;
  }
  absl::Duration cost() const { return cost_; }  // CPU time so far

 private:
  // At the followed processes only, or at all: that can take many ticks, and quick ones come in between.
  struct Look {
    std::optional<ShmLook> look;  // that goes on
    absl::Duration cost, next;
    Count used_then;  // when the last one began
  };
  void NoteChanges(const ShmTick& tick);
  bool IsQuickDue(const ShmTick& tick) const;
  void Begin(const ShmTick& tick, bool whole, std::vector<pid_t> followed);
  std::optional<ShmSample> GoOn(const ShmTick& tick, Look* look);
  std::optional<ShmSample> LookLast(const ShmTick& tick, std::vector<pid_t> followed);
  std::optional<ShmSample> LookOnce(const ShmLookPlan& plan);
  bool RunLook(absl::Duration budget, Look* look);
  ShmSample Take(Look* look);
  std::optional<pid_t> ViewerAfterEnd(pid_t target);

  ProcFs proc_;
  Look quick_, whole_;
  std::optional<ShmSample> before_;                  // what the last whole one found
  uint64_t device_ = 0;                              // of the mount; 0: not known yet
  bool changed_ = true;                              // since the last whole one began
  absl::Time names_changed_ = absl::InfinitePast();  // the last time that a name came or went
  absl::Duration cost_;
};

}  // namespace cowprof

#endif  // COWPROF_SHM_WATCH_H_
