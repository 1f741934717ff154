// Sleeps in ppoll(2) on a signalfd, the target's pidfd and the probes' ring buffer.
#include "recorder/event_loop.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "posix/clock.h"
#include "posix/taken_signals.h"
#include "source/procfs.h"

namespace cowprof {
namespace {

constexpr absl::Duration kAskEvery = absl::Milliseconds(100);  // where there are no pidfds, as under gVisor
constexpr int kMostGenerations = 64;                           // from the program to one that it started

// Signals that a terminal, a shell or a job scheduler sends to a program.
sigset_t Taken() { return TakenSignals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH}); }

bool EndsRecording(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace

EventLoop::EventLoop() {
  const sigset_t taken = Taken();
  sigprocmask(SIG_BLOCK, &taken, &inherited_);
  signals_ = Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
}

void EventLoop::WatchTarget(pid_t target, bool forward_signals) {
  target_pid_ = target;
  forward_ = forward_signals;
  target_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, target, 0)));
}

// What the program, or one that it started, sends to our process group reaches the program, or is not meant for it.
// Other members of the group, such as a script that started us, may have signalled us alone.
bool EventLoop::IsOfProgram(pid_t sender) const {
  if (sender == target_pid_) return true;
  if (sender <= 0 || getpgid(sender) != getpgrp()) return false;  // 0: outside of our pid namespace
  const ProcFs proc;
  for (int i = 0; i < kMostGenerations && sender > 1 && sender != target_pid_; ++i) {
    const absl::StatusOr<ProcStat> stat = proc.ReadStat(sender);
    sender = stat.ok() ? stat->parent : 0;
  }
  return sender == target_pid_;
}

void EventLoop::TakeJobControl() {
  sigset_t taken = Taken();
  sigaddset(&taken, SIGTSTP);
  sigaddset(&taken, SIGCONT);
  sigprocmask(SIG_BLOCK, &taken, nullptr);
  signalfd(signals_.fd(), &taken, 0);
}

void EventLoop::Suspend() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);  // stops here, unless the process group is orphaned
  sigprocmask(SIG_BLOCK, &stop, nullptr);
}

Wake EventLoop::TakeSignals() {
  Wake wake = Wake::kTick;
  signalfd_siginfo info;
  while (read(signals_.fd(), &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    const bool stops = wake == Wake::kStop || wake == Wake::kStopByTarget;
    if (signal == SIGTSTP && !stops) wake = Wake::kSuspend;
    if ((signal == SIGWINCH || signal == SIGCONT) && wake == Wake::kTick) wake = Wake::kRepaint;
    if (signal == SIGTSTP || signal == SIGCONT) continue;  // the program gets these from the terminal itself
    if (!forward_) {
      const bool by_target = info.ssi_code == SI_USER && static_cast<pid_t>(info.ssi_pid) == target_pid_;
      if (EndsRecording(signal)) wake = by_target ? Wake::kStopByTarget : Wake::kStop;
    } else if (info.ssi_code != SI_KERNEL && !IsOfProgram(static_cast<pid_t>(info.ssi_pid))) {
      // Signals of the terminal (SI_KERNEL) reach the program anyway: it is in the same foreground group.
      kill(target_pid_, signal);
    }
  }
  return wake;
}

Wake EventLoop::WaitUntil(absl::Duration deadline) {
  struct Events {
    int fd;
    absl::Duration from;
    bool early = false;  // some came before that
  } all[] = {{event_fd_, events_from_}, {urgent_fd_, urgent_from_}};
  for (;;) {
    const absl::Duration now = BootTime();
    absl::Duration until = deadline;
    for (Events& events : all) {
      events.early &= now < events.from;
      if (events.early) until = std::min(until, events.from);
    }
    const timespec timeout = absl::ToTimespec(std::max(until - now, absl::ZeroDuration()));
    // ppoll ignores descriptors below 0.
    pollfd fds[] = {{signals_.fd(), POLLIN, 0},
                    {target_.fd(), POLLIN, 0},
                    {lifeline_, POLLIN, 0},
                    {all[0].early ? -1 : all[0].fd, POLLIN, 0},
                    {all[1].early ? -1 : all[1].fd, POLLIN, 0}};
    const int ready = ppoll(fds, std::size(fds), &timeout, nullptr);
    if (ready == 0 && until == deadline) return Wake::kTick;
    if (ready <= 0) continue;
    const Wake wake = fds[0].revents ? TakeSignals() : Wake::kTick;
    if (wake != Wake::kTick) return wake;
    if (fds[2].revents) {
      lifeline_ = -1;
      return Wake::kStop;
    }
    if (fds[1].revents) {
      target_.Close();
      return Wake::kTargetEnded;
    }
    for (size_t i = 0; i < std::size(all); ++i) {
      if (!fds[3 + i].revents) continue;
      if (BootTime() >= all[i].from) return i == 0 ? Wake::kEvent : Wake::kUrgentEvent;
      all[i].early = true;
    }
  }
}

// Of a child of ours.
bool EventLoop::HasTargetEnded() const {
  if (target_.ok()) return false;
  siginfo_t info = {};
  return waitid(P_PID, target_pid_, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

bool EventLoop::ForwardUntilTargetEnds(absl::Duration deadline) {
  while (!HasTargetEnded() && BootTime() < deadline) {
    const absl::Duration until = target_.ok() ? deadline : std::min(deadline, BootTime() + kAskEvery);
    if (WaitUntil(until) == Wake::kSuspend) Suspend();
  }
  return HasTargetEnded();
}

void EventLoop::LetSignalsKill(bool pending) {
  // timeout(1) sends one to its child, and at once another one to its group.
  if (!pending) static_cast<void>(TakeSignals());
  signals_.Close();
  sigprocmask(SIG_SETMASK, &inherited_, nullptr);
}

}  // namespace cowprof
