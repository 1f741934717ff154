// Keeps cowprof below 2 % of a core by stretching the interval between ticks, and says so. Pure but for reading
// cowprof's own CPU clock.
#ifndef COWPROF_PACE_H_
#define COWPROF_PACE_H_

#include <algorithm>
#include <optional>

#include "absl/time/time.h"
#include "model/sample.h"

namespace cowprof {

// `interval` if the share of a core that was used stays below 2 %, otherwise twice as long, up to four times `wanted`;
// back again once half of that would do.
absl::Duration NextInterval(absl::Duration interval, absl::Duration wanted, double cpu_share);

class Pace {
 public:
  explicit Pace(absl::Duration wanted)
      : wanted_(wanted), interval_(wanted), first_(std::min(wanted, absl::Milliseconds(100))) {}

  // What holds now. The first ticks come quicker, 100 ms and then twice as long each: a short run is seen, too.
  absl::Duration interval() const { return std::min(interval_, first_); }
  // Once a tick at `t`: measures every 5 s; a note for the recording where the interval changes. `elsewhere`: CPU time
  // so far that has a bound of its own and does not count.
  std::optional<Event> Adjust(absl::Duration t, absl::Duration elsewhere);

 private:
  absl::Duration wanted_, interval_, first_;
  absl::Duration measured_at_ = -absl::InfiniteDuration(), cpu_then_;
};

}  // namespace cowprof

#endif  // COWPROF_PACE_H_
