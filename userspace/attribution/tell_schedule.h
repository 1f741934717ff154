// When attributed copies are reported, so that a recording of hours stays small, and when names are worth an extra
// tick. Pure; times are since the start of the recording.
#ifndef COWPROF_ATTRIBUTION_TELL_SCHEDULE_H_
#define COWPROF_ATTRIBUTION_TELL_SCHEDULE_H_

#include "absl/time/time.h"

namespace cowprof {

class TellSchedule {
 public:
  // A tick. `forked`: a process was forked since the last one.
  void Tick(absl::Duration t, bool forked);

  // Copy sites are reported at longer and longer intervals: after t seconds about every t/20.
  bool copy_sites_due(absl::Duration t) const { return t >= next_copy_sites_; }
  void ToldCopySites(absl::Duration t);
  // After a kill everything is told, as there may be no next time, unless programs are killed all the time.
  bool may_tell_all() const { return kills_ >= 1; }
  void SpendKill() { kills_ -= 1; }
  // Copied pages are reported sooner, since they cost nothing: forecasts need them, soon after workers start.
  bool pages_due(absl::Duration t) const { return t >= next_pages_; }
  void ToldPages(absl::Duration t);

  // Whether to tick out of turn, to read names. A program may have new copy sites, or start others, all the time, so
  // such ticks are limited.
  bool may_tick() const { return extra_ticks_ >= 1; }
  void SpendTick() { extra_ticks_ -= 1; }

 private:
  static constexpr double kMostExtraTicks = 30, kExtraTicksPerSecond = 0.2;
  static constexpr double kMostKills = 30, kKillsPerSecond = 1.0 / 30;

  absl::Duration next_copy_sites_, next_pages_, last_tick_, last_fork_;
  double extra_ticks_ = kMostExtraTicks, kills_ = kMostKills;
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_TELL_SCHEDULE_H_
