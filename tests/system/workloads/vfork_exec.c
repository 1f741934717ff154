// vfork and exec, as subprocess and posix_spawn use them: the new image makes its own memory, forks, and its child copies it.
//   vfork_exec [--pages=20000] [--wait] [--linger]
#include "workload.h"

static int RunImage(long pages) {
  struct Truth image = {.role = "image", .zero_fills = pages}, child = {.role = "child", .copies = pages};
  char* area = MapWritten(pages);
  if (!Fork()) {
    WritePages(area, 0, pages);
    child.pagemap_copies = CountDiverged(getppid(), area, pages);
    Tell(&child);
    _exit(0);
  }
  Reap(-1);
  Tell(&image);
  return 0;
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 20000);
  struct Truth truth = {.role = "root"};
  char count[32];
  if (Flag(argc, argv, "--image")) return RunImage(pages);
  AwaitStart(argc, argv);
  snprintf(count, sizeof(count), "--pages=%ld", pages);
  char* image[] = {argv[0], "--image", count, NULL};
  pid_t pid = vfork();
  if (!pid) {
    execv("/proc/self/exe", image);
    _exit(99);
  }
  Check(pid > 0, "vfork");
  Reap(pid);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
