// The only call in which the recorder sleeps. It wakes for the clock, for signals, and for events of the target.
#ifndef COWPROF_RECORDER_EVENT_LOOP_H_
#define COWPROF_RECORDER_EVENT_LOOP_H_

#include <signal.h>
#include <sys/types.h>

#include "absl/time/time.h"
#include "posix/fd.h"

namespace cowprof {

enum class Wake {
  kTick,
  kEvent,
  kUrgentEvent,
  kTargetEnded,
  kStop,
  kStopByTarget,  // the target asked for it
  kRepaint,       // the terminal was resized, or cowprof continues after a stop
  kSuspend,       // Ctrl-Z
};

class EventLoop {
 public:
  // Blocks the signals that end or control a recording and receives them through a descriptor.
  EventLoop();
  // `forward_signals`: pass them on to `target` (a program that cowprof started) instead of ending the recording. Those
  // that it sent itself, or one that it started sent to their process group, it has had already.
  void WatchTarget(pid_t target, bool forward_signals);
  // Readable at an event; `urgent_fd`: at one of those that wait less. -1: none (any more).
  void WatchEvents(int fd, int urgent_fd = -1) {
    event_fd_ = fd;
    urgent_fd_ = urgent_fd;
  }
  // CLOCK_BOOTTIME. `urgent` is not later than `moment`.
  void HoldEventsUntil(absl::Duration moment, absl::Duration urgent) {
    events_from_ = moment;
    urgent_from_ = urgent;
  }
  // Its end of file ends the recording as a signal does.
  void WatchLifeline(int fd) { lifeline_ = fd; }

  // The original signal mask, for programs that cowprof starts.
  const sigset_t& inherited_signals() const { return inherited_; }

  // Sleeps until `deadline` (CLOCK_BOOTTIME) or until something happens.
  Wake WaitUntil(absl::Duration deadline);

  // For the full-screen display: SIGTSTP and SIGCONT become wakes, and Suspend() stops cowprof.
  void TakeJobControl();
  void Suspend();

  // For a program that continues to run after its recording has ended. Ctrl-Z stops both. False: `deadline`
  // (CLOCK_BOOTTIME) came first.
  bool ForwardUntilTargetEnds(absl::Duration deadline = absl::InfiniteDuration());

  // From now on a signal ends cowprof at once: everything is on disk. `pending`: so does one that came before;
  // otherwise that counts as taken.
  void LetSignalsKill(bool pending = false);

 private:
  // Reads pending signals and returns what they ask for; kTick: nothing.
  Wake TakeSignals();
  bool HasTargetEnded() const;
  bool IsOfProgram(pid_t sender) const;

  sigset_t inherited_;
  Fd signals_, target_;
  int event_fd_ = -1, urgent_fd_ = -1, lifeline_ = -1;
  absl::Duration events_from_, urgent_from_;
  pid_t target_pid_ = 0;
  bool forward_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_EVENT_LOOP_H_
