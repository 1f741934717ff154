// Copies without a page fault exception: a child has the kernel touch the pages that it shares with its parent, and
// holds them for a while. `onfault` and `fresh` copy nothing: they lock pages as they are touched, and new memory.
//   gup_copies --how=lock|populate|direct|onfault|fresh [--pages=20000] [--file=PATH] [--hold=SECONDS] [--wait]
//   [--linger]
#define _GNU_SOURCE
#include "workload.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static void WriteDirectly(const char* path, const char* area, long pages) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, 0600);
  Check(fd >= 0, path);
  for (long done = 0; done < pages * kPageBytes;) {
    ssize_t count = write(fd, area + done, pages * kPageBytes - done);
    Check(count > 0, "write");
    done += count;
  }
  close(fd);
}

// Returns the pages that were copied.
static long Touch(const char* how, const char* path, char* area, long pages) {
  const size_t bytes = pages * kPageBytes;
  if (!strcmp(how, "lock")) Check(!mlock(area, bytes), "mlock");
  if (!strcmp(how, "populate")) Check(!madvise(area, bytes, MADV_POPULATE_WRITE), "MADV_POPULATE_WRITE");
  if (!strcmp(how, "direct")) WriteDirectly(path, area, pages);
  if (!strcmp(how, "onfault")) Check(!mlock2(area, bytes, MLOCK_ONFAULT), "mlock2");
  if (!strcmp(how, "fresh")) Check(!mlock(MapPrivate(pages), bytes), "mlock");
  return strcmp(how, "onfault") && strcmp(how, "fresh") ? pages : 0;
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 20000), hold = Option(argc, argv, "--hold", 9);
  const char *how = TextOption(argc, argv, "--how", "lock"), *path = TextOption(argc, argv, "--file", "direct");
  struct Truth truth = {.role = "root"};
  char* area = MapWritten(pages);
  AwaitStart(argc, argv);
  if (!Fork()) {
    struct Truth child = {.role = "child", .copies = Touch(how, path, area, pages)};
    child.pagemap_copies = CountDiverged(getppid(), area, pages);
    Tell(&child);
    SleepNanoseconds(hold * 1000000000);
    _exit(0);
  }
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
