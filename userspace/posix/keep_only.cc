#include "posix/keep_only.h"

#include <fcntl.h>
#include <unistd.h>

namespace cowprof {

int KeepOnly(int fd) {
  constexpr int kKept = STDERR_FILENO + 1;
  if (fd == kKept) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
  } else {
    dup3(fd, kKept, O_CLOEXEC);
  }
  // Where it can't be opened, the standard ones stay.
  const int null = open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (null >= 0) dup2(null, standard);
  }
  closefrom(kKept + 1);
  return kKept;
}

}  // namespace cowprof
