// The only place that reads a clock of the kernel; everywhere else time is a value passed in.
#ifndef COWPROF_POSIX_CLOCK_H_
#define COWPROF_POSIX_CLOCK_H_

#include <time.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace cowprof {

inline absl::Duration ReadClock(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return absl::DurationFromTimespec(now);
}

// Time since boot, suspend included: the clock of all times in a recording, and of the probes.
inline absl::Duration BootTime() { return ReadClock(CLOCK_BOOTTIME); }

// A moment since boot by the wall clock, as that is set now.
inline absl::Time WallTimeOf(absl::Duration moment) { return absl::Now() - (BootTime() - moment); }

}  // namespace cowprof

#endif  // COWPROF_POSIX_CLOCK_H_
