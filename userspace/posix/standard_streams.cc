#include "posix/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace cowprof {

void OccupyClosedStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest number that is free is this one.
    if (fcntl(stream, F_GETFD) < 0) static_cast<void>(!open("/", O_PATH | O_CLOEXEC));
  }
}

}  // namespace cowprof
