// Notices that the wall clock was set. A recording uses CLOCK_BOOTTIME, which can't be set, but readers who compare its
// times with dates in a log file must know. Pure: both times are passed in.
#ifndef COWPROF_RECORDER_CLOCK_JUMP_H_
#define COWPROF_RECORDER_CLOCK_JUMP_H_

#include <optional>

#include "absl/time/time.h"
#include "model/facts/event.h"

namespace cowprof {

class ClockJump {
 public:
  // Call once per tick, at `t`. `start`: wall clock time of t = 0, by how the clock is set now. Returns a note each
  // time it was set by more than a second. Gradual corrections by NTP do not count.
  std::optional<Event> Look(absl::Duration t, absl::Time start);

 private:
  std::optional<absl::Time> start_;  // as of the last call
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_CLOCK_JUMP_H_
