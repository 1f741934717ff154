#include "watch/stuck_scanners.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace cowprof {
namespace {

pid_t Fork() {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) pause();
}

bool IsChild(pid_t pid) {
  siginfo_t info;
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

TEST_CASE("stuck scanners: those that end are reaped and make room, those that do not are counted") {
  StuckScanners stuck;
  std::vector<pid_t> scanners;
  for (size_t i = 0; i < kMostStuckScanners; ++i) {
    CHECK_FALSE(stuck.full());
    scanners.push_back(Fork());
    stuck.Add(scanners.back(), getpid());
  }
  CHECK(stuck.full());
  for (int ms = 0; ms < 10'000 && stuck.full(); ++ms) {
    stuck.Tidy();
    usleep(1000);
  }
  CHECK_FALSE(stuck.full());
  for (int ms = 0; ms < 10'000 && std::any_of(scanners.begin(), scanners.end(), IsChild); ++ms) {
    stuck.Tidy();
    usleep(1000);
  }
  for (const pid_t scanner : scanners) CHECK_FALSE(IsChild(scanner));
  CHECK(stuck.targets().size() == kMostStuckScanners);  // this process lives
}

TEST_CASE("stuck scanners: targets are forgotten once they have ended") {
  StuckScanners stuck;
  const pid_t target = Fork();
  stuck.Add(Fork(), target);
  stuck.Tidy();
  CHECK(stuck.targets() == std::vector<pid_t>{target});
  kill(target, SIGKILL);
  waitpid(target, nullptr, 0);
  stuck.Tidy();
  CHECK(stuck.targets().empty());
}

}  // namespace cowprof
