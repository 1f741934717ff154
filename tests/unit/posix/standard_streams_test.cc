// What cowprof opens does not become a standard stream that was closed.
#include "posix/standard_streams.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

namespace cowprof {
namespace {

// In a child. 0: all is as it should be.
int LookWithout(int closed) {
  for (int stream = 0; stream <= 2; ++stream) {
    if ((closed >> stream & 1) != 0) close(stream);
  }
  OccupyClosedStreams();
  if (open("/dev/null", O_RDWR) <= 2) return 1;
  char byte = 0;
  for (int stream = 0; stream <= 2; ++stream) {
    const bool was_closed = (closed >> stream & 1) != 0;
    if (((fcntl(stream, F_GETFD) & FD_CLOEXEC) != 0) != was_closed) return 2;
    if (was_closed && (write(stream, "x", 1) != -1 || errno != EBADF)) return 3;
    if (was_closed && (read(stream, &byte, 1) != -1 || errno != EBADF)) return 4;
  }
  return 0;
}

}  // namespace

TEST_CASE("a standard stream that is closed stays so, whatever is opened") {
  const int closed = GENERATE(range(0, 8));  // bit n: descriptor n
  const pid_t pid = fork();
  if (pid == 0) _exit(LookWithout(closed));
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  INFO(closed);
  CHECK(status == 0);
}

}  // namespace cowprof
