// Turns shares of a CPU into times.
#include "source/sweep_pace.h"

#include <algorithm>
#include <utility>

namespace cowprof {
namespace {

// CPU time that the first sweeps may take at once: until all memory was read, private memory is known from its growth
// only.
constexpr absl::Duration kFirstSweeps = absl::Milliseconds(200), kFirstSweepsPerTick = absl::Milliseconds(50);

// By the clock: a report is due two seconds after SIGINT. What is not reached stands as it was last swept.
constexpr absl::Duration kLongestLastSweep = absl::Seconds(1);

}  // namespace

bool SweepPace::BeginRound(absl::Duration t, absl::Duration cost, bool now) {
  if (t < next_ && !now) return false;
  const absl::Duration spent = cost - std::exchange(cost_before_, cost);
  next_ = t + std::max(allowance_.interval, spent / allowance_.long_share);
  return true;
}

absl::Duration SweepPace::Budget(absl::Duration interval, absl::Duration cost, bool last) const {
  if (last) return allowance_.last;
  const absl::Duration hasty = std::clamp(kFirstSweeps - cost, absl::ZeroDuration(), kFirstSweepsPerTick);
  return std::max(interval * allowance_.share, hasty);
}

absl::Duration SweepPace::Longest(bool last) { return last ? kLongestLastSweep : absl::InfiniteDuration(); }

}  // namespace cowprof
