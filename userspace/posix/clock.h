// The clocks that cowprof reads. Time is a value everywhere else.
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

// Time since boot, suspended time included: the clock of every time in a recording, and of the probes.
inline absl::Duration BootTime() { return ReadClock(CLOCK_BOOTTIME); }

}  // namespace cowprof

#endif  // COWPROF_POSIX_CLOCK_H_
