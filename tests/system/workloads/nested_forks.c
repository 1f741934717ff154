// A chain of forks: each level writes its own share of its parent's pages, then forks the next level and waits for it.
//   nested_forks [--pages=24000] [--levels=3] [--wait] [--linger]
#include "workload.h"

// Level L writes the L-th share of the pages and, to plant a copy of a copy as well, half of what the level above has copied.
static void WriteShare(char* area, long pages, long level, long levels) {
  long share = pages / levels, first = (level - 1) * share, again = level > 1 ? share / 2 : 0;
  struct Truth truth = {.role = "level", .copies = share + again};
  WritePages(area, first - again, share + again);
  truth.pagemap_copies = CountDiverged(getppid(), area, pages);
  Tell(&truth);
}

static void RunLevels(char* area, long pages, long levels) {
  for (long level = 1; level <= levels; ++level) {
    WriteShare(area, pages, level, levels);
    if (level < levels && !Fork()) continue;
    Reap(-1);
    _exit(0);
  }
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 24000), levels = Option(argc, argv, "--levels", 3);
  struct Truth truth = {.role = "root"};
  char* area = MapWritten(pages);
  AwaitStart(argc, argv);
  if (!Fork()) RunLevels(area, pages, levels);
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
