// New memory only: a forked child writes fresh pages. With --read-first it reads them first, so that each write is a
// write-protection fault on the zero page, which is still new memory and not a copy. With --huge one fault populates 512 pages,
// where the host has huge pages and the memory cgroup has room for them: --cache reads a file first, which takes the room. Then
// --sparse, a byte in each 2 MiB, populates a page each.
//   zero_fills [--pages=20000] [--read-first | --huge [--sparse] [--cache=PATH]] [--wait] [--linger]
#include "workload.h"

// Maps `pages`, a multiple of 512, in whole huge pages.
static char* MapHuge(long pages) {
  const uintptr_t huge = 2 << 20;
  uintptr_t area = (uintptr_t)MapPrivate(pages + huge / kPageBytes);
  area = (area + huge - 1) / huge * huge;
  madvise((void*)area, pages * kPageBytes, MADV_HUGEPAGE);
  return (char*)area;
}

static void ReadAll(const char* path) {
  static char buffer[1 << 20];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  Check(file >= 0, path);
  while (read(file, buffer, sizeof(buffer)) > 0) {
  }
  close(file);
}

static void FillPages(long pages, int read_first, int huge, int sparse, const char* cache) {
  struct Truth truth = {.role = "child"};
  char* area = huge ? MapHuge(pages) : MapPrivate(pages);
  const long stride = sparse ? 512 : 1;
  if (cache) ReadAll(cache);
  if (read_first) ReadPages(area, pages);
  for (long at = 0; at < pages; at += stride) WritePages(area, at, 1);
  truth.zero_fills = CountPresent(area, pages);
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 20000);
  struct Truth truth = {.role = "root"};
  AwaitStart(argc, argv);
  if (!Fork())
    FillPages(pages, Flag(argc, argv, "--read-first"), Flag(argc, argv, "--huge"), Flag(argc, argv, "--sparse"),
              TextOption(argc, argv, "--cache", NULL));
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
