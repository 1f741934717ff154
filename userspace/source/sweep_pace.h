// How often processes are swept, and what sweeps may cost: at one tick and in the long run. Pure; which processes are
// due is up to whoever owns the sweeps.
#ifndef COWPROF_SOURCE_SWEEP_PACE_H_
#define COWPROF_SOURCE_SWEEP_PACE_H_

#include "absl/time/time.h"

namespace cowprof {

struct SweepAllowance {
  absl::Duration interval;  // between the beginnings of two rounds
  double share = 0;         // of one CPU, while a round runs
  double long_share = 0;    // of one CPU, in the long run
  absl::Duration last;      // CPU time at the end of the recording
};

class SweepPace {
 public:
  explicit SweepPace(const SweepAllowance& allowance) : allowance_(allowance) {}

  // Begins a round if it is time to, or if it must be `now`. A costly round makes the next one wait longer. `cost`: CPU
  // time of all sweeps so far.
  bool BeginRound(absl::Duration t, absl::Duration cost, bool now = false);
  // CPU time for the sweeps of this tick.
  absl::Duration Budget(absl::Duration interval, absl::Duration cost, bool last) const;
  // The same by the clock.
  static absl::Duration Longest(bool last);

 private:
  SweepAllowance allowance_;
  absl::Duration next_, cost_before_;  // before: when the current round began
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_SWEEP_PACE_H_
