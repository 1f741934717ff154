// F short-lived children at R a second: each copies K pages, reports it and ends with its own exit code. Every fourth one forks a
// child of its own; every seventh leaves an orphan that outlives it. The root prints the number of forks.
//   fork_storm [--forks=200] [--rate=500] [--pages=64] [--wait] [--linger]
#include <sys/prctl.h>

#include "workload.h"

enum { kNestEvery = 4, kOrphanEvery = 7, kExitCodes = 5 };

static char* area;
static long pages;
static pid_t root;  // still has the original pages

static void CopyAndEnd(const char* role, int exit_code) {
  struct Truth truth = {.role = role, .copies = pages, .exit_code = exit_code};
  WritePages(area, 0, pages);
  truth.pagemap_copies = CountDiverged(root, area, pages);
  Tell(&truth);
  _exit(exit_code);
}

static void RunChild(long number) {
  if (number % kNestEvery == 0) {
    if (!Fork()) CopyAndEnd("nested", (number + 1) % kExitCodes);
    Reap(-1);
  }
  if (number % kOrphanEvery == 0 && !Fork()) {
    SleepNanoseconds(3000000);
    CopyAndEnd("orphan", (number + 2) % kExitCodes);
  }
  CopyAndEnd("child", number % kExitCodes);
}

static void SleepUntil(struct timespec start, long nanoseconds) {
  nanoseconds += start.tv_nsec;
  struct timespec when = {start.tv_sec + nanoseconds / 1000000000, nanoseconds % 1000000000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
}

int main(int argc, char** argv) {
  long forks = Option(argc, argv, "--forks", 200), rate = Option(argc, argv, "--rate", 500);
  long nested = (forks + kNestEvery - 1) / kNestEvery, orphans = (forks + kOrphanEvery - 1) / kOrphanEvery;
  struct Truth truth = {.role = "root"};
  struct timespec start;
  pages = Option(argc, argv, "--pages", 64);
  area = MapWritten(pages);
  root = getpid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  AwaitStart(argc, argv);
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (long i = 0; i < forks; ++i) {
    SleepUntil(start, i * (1000000000 / rate));
    if (!Fork()) RunChild(i);
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  }
  Reap(-1);
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"storm\",\"forks\":%ld}\n", getpid(), forks + nested + orphans);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
