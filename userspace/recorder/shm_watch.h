// Decides when to look at shared memory during a recording: at the start, at the end, from time to time if something
// changed, and at once while it fills up. source/shm.h does the looking.
#ifndef COWPROF_RECORDER_SHM_WATCH_H_
#define COWPROF_RECORDER_SHM_WATCH_H_

#include <sys/types.h>

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "model/facts/sample.h"
#include "source/shm.h"

namespace cowprof {

struct ShmTick {
  absl::Duration t, interval;
  pid_t target = 0;
  bool target_alive = true, last = false;
  const LimitSample* mount = nullptr;  // usage of the target's mount; null: it has none
  bool processes_changed = false;      // a process came or ended since the last tick
};

class ShmWatch {
 public:
  explicit ShmWatch(const ProcFs& proc) : proc_(proc) {}

  // Returns the result of a look that finished in this tick. Calls `followed()` only if a look begins.
  template <typename ListFollowed>
  std::optional<ShmSample> Run(const ShmTick& tick, ListFollowed followed) {
    if (!tick.target_alive || tick.last) return LookLast(tick, followed());
    NoteChanges(tick);
    if (!quick_.look && IsQuickDue(tick)) Begin(tick, /*whole=*/false, followed());
    if (quick_.look) return GoOn(tick, &quick_);
    if (!whole_.look && IsWholeDue(tick)) Begin(tick, /*whole=*/true, followed());
    return whole_.look ? GoOn(tick, &whole_) : std::nullopt;
  }
  absl::Duration cost() const { return cost_; }  // CPU time so far

 private:
  // Quick looks cover followed processes only. Whole looks cover all and can take many ticks, with quick ones between.
  struct Look {
    std::optional<ShmLook> look;  // in progress
    absl::Duration cost, next;
    Count used_then;  // usage when the last one began; of quick ones the least since then
  };
  bool IsWholeDue(const ShmTick& tick) const;
  void NoteChanges(const ShmTick& tick);
  bool IsQuickDue(const ShmTick& tick) const;
  void Begin(const ShmTick& tick, bool whole, std::vector<pid_t> followed);
  std::optional<ShmSample> GoOn(const ShmTick& tick, Look* look);
  std::optional<ShmSample> LookLast(const ShmTick& tick, std::vector<pid_t> followed);
  std::optional<ShmSample> LookOnce(const ShmLookPlan& plan);
  bool RunLook(absl::Duration budget, Look* look);
  ShmSample Take(Look* look);
  std::optional<pid_t> ViewerAfterEnd(pid_t target, std::vector<pid_t> followed);
  void AwaitEnds(pid_t target, std::vector<pid_t> followed);

  ProcFs proc_;
  Look quick_, whole_;
  std::optional<ShmSample> before_;                  // result of the last whole look
  uint64_t device_ = 0;                              // of the mount; 0: unknown yet
  bool awaited_ = false;                             // the ends of the target and its workers
  bool changed_ = true;                              // since the last whole look began
  bool processes_changed_ = true;                    // the same
  absl::Time names_changed_ = absl::InfinitePast();  // when a name was last added or removed
  absl::Duration cost_;
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_SHM_WATCH_H_
