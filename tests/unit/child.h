// A forked child process for unit tests.
#ifndef COWPROF_TESTS_UNIT_CHILD_H_
#define COWPROF_TESTS_UNIT_CHILD_H_

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

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

// A child of vfork(2) that does not call exec, and so has the memory of this process itself. Ends as a Child does.
class VforkedChild {
 public:
  VforkedChild() {
    REQUIRE(pipe(ends_) == 0);
    thread_ = std::thread([this] {
      const pid_t pid = vfork();
      if (pid == 0) {  // only calls that leave the memory as it is
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pid_ = getpid();
        char byte;
        _exit(read(ends_[0], &byte, 1) == 1 ? 0 : 1);
      }
      if (pid < 0) pid_ = -1;
      waitpid(pid, nullptr, 0);
    });
    while (pid_ == 0) usleep(1000);
  }
  VforkedChild(const VforkedChild&) = delete;
  VforkedChild& operator=(const VforkedChild&) = delete;
  ~VforkedChild() {
    static_cast<void>(!write(ends_[1], "x", 1));
    thread_.join();
    for (const int end : ends_) close(end);
  }

  pid_t pid() const { return pid_; }  // -1: there is none

 private:
  int ends_[2];
  std::atomic<pid_t> pid_ = 0;
  std::thread thread_;
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_CHILD_H_
