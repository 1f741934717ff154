// Copies made by the kernel: a child reads a file straight into pages that it shares with its parent. With --file=PATH the file is
// on disk and cold, so that page-cache pages are allocated inside the same system call.
//   kernel_copies [--pages=20000] [--file=PATH] [--wait] [--linger]
#include "file_bytes.h"

static void ReadIntoSharedPages(int fd, char* area, long pages) {
  struct Truth truth = {.role = "child", .copies = pages};
  ReadFile(fd, area, pages);
  truth.pagemap_copies = CountDiverged(getppid(), area, pages);
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 20000), cold = 0;
  const char* path = TextOption(argc, argv, "--file", NULL);
  struct Truth truth = {.role = "root"};
  char* area = MapWritten(pages);
  int fd = MakeFile(path, pages);
  AwaitStart(argc, argv);
  if (path) cold = MakeCold(fd, pages);
  if (!Fork()) ReadIntoSharedPages(fd, area, pages);
  Reap(-1);
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"file\",\"cold_pages\":%ld}\n", getpid(), cold);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
