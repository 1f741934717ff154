// A parent in uninterruptible sleep (state D): it waits for a vfork(2) child that blocks until stdin is closed.
//   waiting_vfork
#include "workload.h"

int main(void) {
  static char c;
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"ready\"}\n", getpid());
  pid_t child = vfork();
  if (!child) {
    while (read(STDIN_FILENO, &c, 1) == 1) continue;
    _exit(0);
  }
  Reap(child);
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"woke\"}\n", getpid());
  return 0;
}
