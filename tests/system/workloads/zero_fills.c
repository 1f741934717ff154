// New memory only: a forked child writes fresh pages. With --read-first it reads them first, so that each write is a
// write-protection fault on the zero page, which is still new memory and not a copy. With --huge one fault populates 512 pages,
// where the host has huge pages.
//   zero_fills [--pages=20000] [--read-first | --huge] [--wait] [--linger]
#include "workload.h"

// Maps `pages`, a multiple of 512, in whole huge pages.
static char* MapHuge(long pages) {
  const uintptr_t huge = 2 << 20;
  uintptr_t area = (uintptr_t)MapPrivate(pages + huge / kPageBytes);
  area = (area + huge - 1) / huge * huge;
  madvise((void*)area, pages * kPageBytes, MADV_HUGEPAGE);
  return (char*)area;
}

static void FillPages(long pages, int read_first, int huge) {
  struct Truth truth = {.role = "child", .zero_fills = pages};
  char* area = huge ? MapHuge(pages) : MapPrivate(pages);
  if (read_first) ReadPages(area, pages);
  WritePages(area, 0, pages);
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 20000);
  struct Truth truth = {.role = "root"};
  AwaitStart(argc, argv);
  if (!Fork()) FillPages(pages, Flag(argc, argv, "--read-first"), Flag(argc, argv, "--huge"));
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
