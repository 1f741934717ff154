// Forked children each write N pages that they share with their parent: N copies per child, none in the parent.
//   fork_copies [--pages=20000] [--children=1] [--wait] [--linger]
#include "workload.h"

static void WriteSharedPages(char* area, long pages) {
  struct Truth truth = {.role = "child", .copies = pages};
  WritePages(area, 0, pages);
  truth.pagemap_copies = CountDiverged(getppid(), area, pages);
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 20000), children = Option(argc, argv, "--children", 1);
  struct Truth truth = {.role = "root"};
  char* area = MapWritten(pages);
  AwaitStart(argc, argv);
  for (long i = 0; i < children; ++i)
    if (!Fork()) WriteSharedPages(area, pages);
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
