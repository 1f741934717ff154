// Keeps cowprof below 2 % of a core by stretching the interval between ticks, and notes that in the recording. What
// events cost besides is bounded apart. Pure except for reading cowprof's own CPU clock.
#ifndef COWPROF_RECORDER_SELF_THROTTLE_H_
#define COWPROF_RECORDER_SELF_THROTTLE_H_

#include <algorithm>
#include <optional>

#include "absl/time/time.h"
#include "model/facts/event.h"

namespace cowprof {

// `interval` if cowprof used less than 2 % of a core, otherwise twice that, up to four times `wanted`; halved again
// once usage is below a third of 2 %, down to `wanted`.
absl::Duration NextInterval(absl::Duration interval, absl::Duration wanted, double cpu_share);

class SelfThrottle {
 public:
  explicit SelfThrottle(absl::Duration wanted)
      : wanted_(wanted), interval_(wanted), first_(std::min(wanted, absl::Milliseconds(100))) {}

  // The current interval. The first ticks come sooner, after 100 ms and then twice as long each, to see short runs too.
  absl::Duration interval() const { return std::min(interval_, first_); }
  // Call once per tick, at `t`. Measures every 5 s; returns a note for the recording if the interval changes.
  // `elsewhere`: CPU time so far that has a bound of its own and does not count.
  std::optional<Event> Adjust(absl::Duration t, absl::Duration elsewhere);

 private:
  absl::Duration wanted_, interval_, first_;
  absl::Duration measured_at_ = -absl::InfiniteDuration(), cpu_then_;
};

// Ticks that events ask for between those that are due: at once, but in the long run for 1 % of a core.
class EventPace {
 public:
  // `longest`: none waits longer than that after the tick before. `least`: what each counts as at least, CPU time,
  // since it also takes room in the file.
  explicit EventPace(absl::Duration longest = absl::InfiniteDuration(), absl::Duration least = absl::ZeroDuration())
      : longest_(longest), least_(least) {}

  // Such a tick began at `t` and took `cost`, CPU time.
  void Spend(absl::Duration t, absl::Duration cost);
  // When the next one may begin, after a tick that began at `t`.
  absl::Duration NextAfter(absl::Duration t) const { return std::min(next_, t + longest_); }

 private:
  absl::Duration longest_, least_, next_;
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_SELF_THROTTLE_H_
