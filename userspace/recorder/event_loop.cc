// Sleeps in ppoll(2) on a signalfd, the target's pidfd and the probes' ring. See waiter.h.
#include "waiter.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "posix/clock.h"

namespace cowprof {
namespace {

// What a terminal, a shell or a job scheduler sends to a program that it runs.
constexpr int kTaken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

// Who has said `nohup` means it. SIGINT is taken even so: shells let what they run in the background ignore it.
sigset_t Taken() {
  sigset_t taken;
  sigemptyset(&taken);
  for (int signal : kTaken) sigaddset(&taken, signal);
  struct sigaction hangup;
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN) sigdelset(&taken, SIGHUP);
  return taken;
}

bool EndsRecording(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace

Waiter::Waiter() {
  const sigset_t taken = Taken();
  sigprocmask(SIG_BLOCK, &taken, &inherited_);
  signals_ = Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
}

void Waiter::WatchTarget(pid_t target, bool forward_signals) {
  target_pid_ = target;
  forward_ = forward_signals;
  target_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, target, 0)));
}

void Waiter::TakeJobControl() {
  sigset_t taken = Taken();
  sigaddset(&taken, SIGTSTP);
  sigaddset(&taken, SIGCONT);
  sigprocmask(SIG_BLOCK, &taken, nullptr);
  signalfd(signals_.fd(), &taken, 0);
}

void Waiter::Suspend() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);  // stops here, unless nobody is there to let it go on
  sigprocmask(SIG_BLOCK, &stop, nullptr);
}

Wake Waiter::TakeSignals() {
  Wake wake = Wake::kTick;
  signalfd_siginfo info;
  while (read(signals_.fd(), &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGTSTP && wake != Wake::kStop) wake = Wake::kSuspend;
    if ((signal == SIGWINCH || signal == SIGCONT) && wake == Wake::kTick) wake = Wake::kRepaint;
    if (signal == SIGTSTP || signal == SIGCONT) continue;  // the program is stopped by itself
    if (!forward_) {
      if (EndsRecording(signal)) wake = Wake::kStop;
    } else if (info.ssi_code != SI_KERNEL) {
      // What the terminal sends (SI_KERNEL) reaches the program by itself: it is of the same foreground group.
      kill(target_pid_, signal);
    }
  }
  return wake;
}

Wake Waiter::WaitUntil(absl::Duration deadline) {
  for (;;) {
    const absl::Duration left = std::max(deadline - BootTime(), absl::ZeroDuration());
    const timespec timeout = absl::ToTimespec(left);
    // ppoll ignores descriptors below 0.
    pollfd fds[] = {{signals_.fd(), POLLIN, 0}, {target_.fd(), POLLIN, 0}, {event_fd_, POLLIN, 0}};
    const int ready = ppoll(fds, std::size(fds), &timeout, nullptr);
    if (ready == 0) return Wake::kTick;
    if (ready < 0) continue;
    const Wake wake = fds[0].revents ? TakeSignals() : Wake::kTick;
    if (wake != Wake::kTick) return wake;
    if (fds[1].revents) {
      target_.Close();
      return Wake::kTargetEnded;
    }
    if (fds[2].revents) return Wake::kEvent;
  }
}

void Waiter::ForwardUntilTargetEnds() {
  event_fd_ = -1;
  while (target_.ok()) WaitUntil(absl::InfiniteDuration());
}

void Waiter::LetSignalsKill() {
  signals_.Close();
  sigprocmask(SIG_SETMASK, &inherited_, nullptr);
}

}  // namespace cowprof
