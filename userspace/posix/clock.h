// The only place that reads a clock of the kernel; everywhere else time is a value passed in.
#ifndef COWPROF_POSIX_CLOCK_H_
#define COWPROF_POSIX_CLOCK_H_

#include <time.h>

#include "absl/time/time.h"

namespace cowprof {

inline absl::Duration ReadClock(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return absl::DurationFromTimespec(now);
}

// Time since boot, suspend included: the clock of all times in a recording, and of the probes.
inline absl::Duration BootTime() { return ReadClock(CLOCK_BOOTTIME); }

}  // namespace cowprof

#endif  // COWPROF_POSIX_CLOCK_H_
