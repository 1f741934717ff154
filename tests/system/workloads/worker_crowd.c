// N workers that live at the same time. On a line on stdin each copies K inherited pages; the parent reports when all have done so.
// All stay until stdin is closed.
//   worker_crowd [--workers=512] [--pages=64]
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "workload.h"

static struct Shared {
  atomic_int go, born, copied;
}* shared;

// Polls every 20 ms: simpler than a futex and fast enough.
static void Await(atomic_int* count, int least) {
  while (atomic_load(count) < least) SleepNanoseconds(20000000);
}

static void RunWorker(char* area, long pages) {
  char c;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  atomic_fetch_add(&shared->born, 1);
  Await(&shared->go, 1);
  WritePages(area, 0, pages);
  atomic_fetch_add(&shared->copied, 1);
  while (read(STDIN_FILENO, &c, 1) == 1) continue;
  _exit(0);
}

int main(int argc, char** argv) {
  long workers = Option(argc, argv, "--workers", 512), pages = Option(argc, argv, "--pages", 64);
  char* area = MapWritten(pages);
  char c;
  shared = MapShared(sizeof(*shared));
  for (long i = 0; i < workers; ++i)
    if (!Fork()) RunWorker(area, pages);
  Await(&shared->born, workers);
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"ready\"}\n", getpid());
  if (read(STDIN_FILENO, &c, 1) != 1) return 1;
  atomic_store(&shared->go, 1);
  Await(&shared->copied, workers);
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"copied\",\"planted_copies\":%ld}\n", getpid(), pages);
  Reap(-1);
  return 0;
}
