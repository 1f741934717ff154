// A child adds pages to shared memory on /dev/shm, as a DataLoader worker does with batches; the parent touches them
// afterwards. Shared memory grows; nothing is copied.
//   shm_pages [--pages=8000] [--name=/cowprof-test] [--wait] [--linger]
#include "workload.h"

static char* MapSegment(int fd, long pages) {
  char* area = mmap(NULL, pages * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  Check(area != MAP_FAILED, "mmap");
  return area;
}

static void AddPages(int fd, long pages) {
  struct Truth truth = {.role = "child", .shm_pages = pages};
  WritePages(MapSegment(fd, pages), 0, pages);
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 8000);
  const char* name = TextOption(argc, argv, "--name", "/cowprof-test");
  struct Truth truth = {.role = "root"};
  int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  Check(fd >= 0 && !shm_unlink(name) && !ftruncate(fd, pages * kPageBytes), "shm_open");
  AwaitStart(argc, argv);
  if (!Fork()) AddPages(fd, pages);
  Reap(-1);
  WritePages(MapSegment(fd, pages), 0, pages);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
