// The one call in which cowprof sleeps: clock, shutdown and wake-up in one. Called by the recording loop.
#ifndef COWPROF_WAITER_H_
#define COWPROF_WAITER_H_

#include <signal.h>
#include <sys/types.h>

#include "absl/time/time.h"
#include "posix/fd.h"

namespace cowprof {

enum class Wake {
  kTick,
  kEvent,
  kTargetEnded,
  kStop,
  kRepaint,  // the terminal has another size, or cowprof goes on after it was stopped
  kSuspend,  // Ctrl-Z
};

class Waiter {
 public:
  // Blocks the signals that end or steer a recording and takes them by descriptor. `forward_to` != 0: they are passed
  // on to that process (a program that cowprof started) instead of ending the recording.
  Waiter();
  void WatchTarget(pid_t target, bool forward_signals);
  void WatchEvents(int fd) { event_fd_ = fd; }

  // The mask as it was before, for programs that are started.
  const sigset_t& inherited_signals() const { return inherited_; }

  // Sleeps until `deadline` (CLOCK_BOOTTIME) or until something happens.
  Wake WaitUntil(absl::Duration deadline);

  // For who has the terminal's screen: stopping and going on become wakes, and Suspend() stops.
  void TakeJobControl();
  void Suspend();

  // For a program that runs on when its recording is over.
  void ForwardUntilTargetEnds();

  // From here on a signal ends cowprof at once: everything of worth is on disk.
  void LetSignalsKill();

 private:
  // What the signals that are there call for; kTick: nothing.
  Wake TakeSignals();

  sigset_t inherited_;
  Fd signals_, target_;
  int event_fd_ = -1;
  pid_t target_pid_ = 0;
  bool forward_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_WAITER_H_
