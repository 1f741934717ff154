// Only short-lived children: F of them at R a second, each of which writes K inherited pages and ends. Prints how many there were
// and how long it took, to compare with the profiler's account. With --exec each child execs this program; with --kill it ends by SIGKILL.
//   many_forks [--forks=10000] [--rate=1000] [--pages=2] [--exec] [--kill] [--wait] [--linger]
#include "workload.h"

static char* area;

static void RunChild(long pages, int exec, int by_signal) {
  char* image[] = {"many_forks", "--image", NULL};
  WritePages(area, 0, pages);
  if (exec) execv("/proc/self/exe", image);
  if (by_signal) kill(getpid(), SIGKILL);
  _exit(0);
}

// Reaps the children that have ended or, if `last`, all of them. Returns their number.
static long TakeEnded(int last) {
  long ended = 0;
  while (waitpid(-1, NULL, last ? 0 : WNOHANG) > 0) ++ended;
  return ended;
}

int main(int argc, char** argv) {
  long forks = Option(argc, argv, "--forks", 10000), rate = Option(argc, argv, "--rate", 1000);
  long pages = Option(argc, argv, "--pages", 2), ended = 0;
  if (Flag(argc, argv, "--image")) return 0;
  area = MapWritten(pages);
  AwaitStart(argc, argv);
  int64_t start = BootNanoseconds();
  for (long i = 0; i < forks; ++i) {
    int64_t early = start + i * 1000000000 / rate - BootNanoseconds();
    if (early > 0) SleepNanoseconds(early);
    if (!Fork()) RunChild(pages, Flag(argc, argv, "--exec"), Flag(argc, argv, "--kill"));
    ended += TakeEnded(0);
  }
  ended += TakeEnded(1);
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"storm\",\"forks\":%ld,\"ended\":%ld,\"seconds\":%.3f}\n", getpid(), forks, ended,
          (BootNanoseconds() - start) / 1e9);
  Linger(argc, argv);
  return 0;
}
