// A forked child process for unit tests.
#ifndef COWPROF_TESTS_UNIT_CHILD_H_
#define COWPROF_TESTS_UNIT_CHILD_H_

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>

#include "source/procfs.h"

namespace cowprof {

// In a forked process: it ends with its parent, also with one that has ended before this call.
inline void EndWith(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

// Runs `body`, then waits without touching memory. Ends with its owner, even if that crashes: a leftover child would
// keep the test's output open, and whoever reads that would wait for it.
class Child {
 public:
  explicit Child(const std::function<void()>& body = [] {}) {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body();
      static_cast<void>(!write(ready[1], "x", 1));
      while (true) pause();
    }
    close(ready[1]);
    char byte;
    const bool ran = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    REQUIRE(ran);
    for (int ms = 0; ms < 30'000 && ProcFs().ReadStat(pid_).value().state != 'S'; ++ms) usleep(1000);
    REQUIRE(ProcFs().ReadStat(pid_).value().state == 'S');
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { End(); }

  pid_t pid() const { return pid_; }
  // Kills it and leaves a zombie.
  void Kill() const {
    kill(pid_, SIGKILL);
    siginfo_t info;
    waitid(P_PID, pid_, &info, WEXITED | WNOWAIT);
  }
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_;
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_CHILD_H_
