// Notices that the wall clock was set. A recording counts on CLOCK_BOOTTIME, which nobody can set; but who compares its
// times with the dates in a log file has to know. Pure: both times are passed in. Called by the recording loop.
#ifndef COWPROF_WALL_CLOCK_H_
#define COWPROF_WALL_CLOCK_H_

#include <optional>

#include "absl/time/time.h"
#include "model/sample.h"

namespace cowprof {

class WallClock {
 public:
  // Once a tick at `t`, with what the wall clock says: one note for each time that it was set by more than a second.
  // What NTP corrects little by little is none.
  std::optional<Event> Look(absl::Duration t, absl::Time wall);

 private:
  std::optional<absl::Time> start_;  // what the wall clock would have said at t = 0, as of the last look
};

}  // namespace cowprof

#endif  // COWPROF_WALL_CLOCK_H_
