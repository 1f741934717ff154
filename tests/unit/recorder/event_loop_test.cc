// What becomes of the signals of a recorder whose program runs on after the recording.
#include "recorder/event_loop.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "child.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

enum class Sends { kNobody, kProgram, kItsChild, kItsChildFromElsewhere, kNeighbour };

[[noreturn]] void SendTo(pid_t recorder, int ready) {
  kill(recorder, SIGUSR1);
  static_cast<void>(!write(ready, "x", 1));
  while (true) pause();
}

// The program, with all signals blocked. Its exit status at a SIGUSR2 is how many SIGUSR1 it has had.
[[noreturn]] void CountSignals(Sends who, int ready) {
  const pid_t program = getpid(), recorder = getppid();
  if (who == Sends::kProgram) kill(0, SIGUSR1);
  if ((who == Sends::kItsChild || who == Sends::kItsChildFromElsewhere) && fork() == 0) {
    EndWith(program);
    if (who == Sends::kItsChild) {
      kill(0, SIGUSR1);
      while (true) pause();
    }
    setpgid(0, 0);
    SendTo(recorder, ready);
  }
  sigset_t all;
  sigfillset(&all);
  for (int count = 0, signal = 0;;) {
    sigwait(&all, &signal);
    if (signal == SIGUSR2) _exit(count);
    if (signal == SIGUSR1 && ++count == 1) static_cast<void>(!write(ready, "x", 1));  // the next is one more
  }
}

// A recorder with a process group of its own, as a shell starts it, and its program.
class Recorder {
 public:
  explicit Recorder(bool pidfds = true, Sends who = Sends::kNobody) {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) Run(ready[1], pidfds, who);
    close(ready[1]);
    char byte;
    const bool runs = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    REQUIRE(runs);
  }
  ~Recorder() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void Send(int signal) const { kill(pid_, signal); }
  // What waitpid(2) says of its next stop or end; -1: neither within ten seconds.
  int AwaitStop() const {
    int status = 0;
    for (int ms = 0; ms < 10'000; ++ms) {
      if (waitpid(pid_, &status, WNOHANG | WUNTRACED) == pid_) return status;
      usleep(1000);
    }
    return -1;
  }

 private:
  // Ends with the exit status of its program, or with 7 if a signal ended that.
  [[noreturn]] static void Run(int ready, bool pidfds, Sends who) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    int go[2];
    if (pipe(go) != 0) _exit(1);
    sigset_t all;
    sigfillset(&all);
    if (who != Sends::kNobody) sigprocmask(SIG_BLOCK, &all, nullptr);
    const pid_t recorder = getpid(), program = fork();
    if (program == 0) {
      EndWith(recorder);
      char byte;
      if (read(go[0], &byte, 1) == 1 && who != Sends::kNobody) CountSignals(who, ready);
      while (true) pause();
    }
    EventLoop loop;
    const rlimit few_descriptors = {16, 16};
    if (!pidfds) setrlimit(RLIMIT_NOFILE, &few_descriptors);
    while (!pidfds && dup(ready) >= 0) continue;
    loop.WatchTarget(program, /*forward_signals=*/true);
    loop.TakeJobControl();
    if (who == Sends::kNeighbour && fork() == 0) {
      EndWith(recorder);
      SendTo(recorder, ready);
    }
    static_cast<void>(!write(who == Sends::kNobody ? ready : go[1], "x", 1));
    loop.ForwardUntilTargetEnds();
    int status = 0;
    waitpid(program, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 7);
  }

  pid_t pid_ = 0;
};

}  // namespace

TEST_CASE("Ctrl-Z stops a recorder that waits for its program, and signals still reach the program") {
  Recorder recorder;
  recorder.Send(SIGTSTP);
  const int stopped = recorder.AwaitStop();
  REQUIRE(WIFSTOPPED(stopped));
  CHECK(WSTOPSIG(stopped) == SIGTSTP);
  recorder.Send(SIGCONT);
  recorder.Send(SIGUSR1);  // ends the program; Catch has no handler for it
  const int ended = recorder.AwaitStop();
  REQUIRE(WIFEXITED(ended));
  CHECK(WEXITSTATUS(ended) == 7);
}

TEST_CASE("a recorder without pidfds passes signals on as well, and ends with its program") {
  Recorder recorder(/*pidfds=*/false);
  recorder.Send(SIGUSR1);
  const int ended = recorder.AwaitStop();
  REQUIRE(WIFEXITED(ended));
  CHECK(WEXITSTATUS(ended) == 7);
}

TEST_CASE("what the program sends to its process group is not passed on; what others there send to the recorder is") {
  const Sends who = GENERATE(Sends::kProgram, Sends::kItsChild, Sends::kItsChildFromElsewhere, Sends::kNeighbour);
  CAPTURE(static_cast<int>(who));
  const Recorder recorder(/*pidfds=*/true, who);
  recorder.Send(SIGUSR2);
  const int ended = recorder.AwaitStop();
  REQUIRE(WIFEXITED(ended));
  CHECK(WEXITSTATUS(ended) == 1);
}

TEST_CASE("a signal that came before signals may kill is taken, or kills then") {
  const bool pending = GENERATE(false, true);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGHUP, SIG_DFL);
    EventLoop loop;
    raise(SIGHUP);
    loop.LetSignalsKill(pending);
    _exit(3);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) == pending);
  CHECK((pending ? WTERMSIG(status) == SIGHUP : WEXITSTATUS(status) == 3));
}

TEST_CASE("events wait until they may make a tick; what is due does not") {
  int events[2], urgent[2];
  REQUIRE(pipe(events) == 0);
  REQUIRE(pipe(urgent) == 0);
  REQUIRE(write(events[1], "x", 1) == 1);
  EventLoop loop;
  loop.WatchEvents(events[0], urgent[0]);
  const absl::Duration now = BootTime(), soonest = now + absl::Milliseconds(200), from = now + absl::Milliseconds(400);
  loop.HoldEventsUntil(from, soonest);
  CHECK(loop.WaitUntil(now + absl::Milliseconds(5)) == Wake::kTick);
  CHECK(loop.WaitUntil(now + absl::Hours(1)) == Wake::kEvent);
  CHECK(BootTime() >= from);
  // Urgent ones wait less.
  REQUIRE(write(urgent[1], "x", 1) == 1);
  loop.HoldEventsUntil(BootTime() + absl::Hours(1), BootTime() + absl::Milliseconds(200));
  CHECK(loop.WaitUntil(BootTime() + absl::Milliseconds(5)) == Wake::kTick);
  CHECK(loop.WaitUntil(BootTime() + absl::Minutes(10)) == Wake::kUrgentEvent);
  loop.LetSignalsKill();
  for (const int fd : {events[0], events[1], urgent[0], urgent[1]}) close(fd);
}

}  // namespace cowprof
