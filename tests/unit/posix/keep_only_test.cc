#include "posix/keep_only.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "posix/fd.h"

namespace cowprof {
namespace {

std::string LinkOf(int fd) {
  char path[256];
  const ssize_t bytes = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path));
  return bytes > 0 ? std::string(path, bytes) : "";
}

// In a child. 0: all is as it should be.
int Look(int kept) {
  const std::string before = LinkOf(kept);
  const int fd = KeepOnly(kept);
  if (LinkOf(fd) != before) return 1;
  if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) return 2;
  for (const int standard : {0, 1, 2}) {
    if (LinkOf(standard) != "/dev/null") return 3;
  }
  for (int other = 0; other < 100; ++other) {
    if (other > 2 && other != fd && fcntl(other, F_GETFD) != -1) return 4;
  }
  return 0;
}

}  // namespace

TEST_CASE("keep only: one descriptor is left, whatever its number") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  const int at = GENERATE(-1, 0, 3, 50);
  const pid_t pid = fork();
  if (pid == 0) _exit(Look(at < 0 ? writing.fd() : dup2(writing.fd(), at)));
  writing.Close();
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  INFO(at);
  CHECK(status == 0);
}

}  // namespace cowprof
