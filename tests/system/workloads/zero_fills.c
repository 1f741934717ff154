// New memory only: a forked child writes fresh pages. With --read-first it reads them before, so that each write is a
// write-protection fault on the zero page: new memory all the same, and no copy.
//   zero_fills [--pages=20000] [--read-first] [--wait] [--linger]
#include "workload.h"

static void FillPages(long pages, int read_first) {
  struct Truth truth = {.role = "child", .zero_fills = pages};
  char* area = MapPrivate(pages);
  if (read_first) ReadPages(area, pages);
  WritePages(area, 0, pages);
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 20000);
  struct Truth truth = {.role = "root"};
  AwaitStart(argc, argv);
  if (!Fork()) FillPages(pages, Flag(argc, argv, "--read-first"));
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
