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

// A recorder with a process group of its own, as a shell starts it, and its program.
class Recorder {
 public:
  explicit Recorder(bool pidfds = true) {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) Run(ready[1], pidfds);
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
  [[noreturn]] static void Run(int ready, bool pidfds) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    const pid_t recorder = getpid(), program = fork();
    if (program == 0) {
      EndWith(recorder);
      while (true) pause();
    }
    EventLoop loop;
    const rlimit few_descriptors = {16, 16};
    setrlimit(RLIMIT_NOFILE, &few_descriptors);
    while (!pidfds && dup(ready) >= 0) continue;
    loop.WatchTarget(program, /*forward_signals=*/true);
    loop.TakeJobControl();
    static_cast<void>(!write(ready, "x", 1));
    loop.ForwardUntilTargetEnds();
    _exit(7);
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
