// A child writes a private mapping of a file. If the first touch is a write, it is a file copy without a write-protection fault.
// With --read-first the page-cache page is mapped first, and the write is a write-protection fault that copies it.
//   file_copies --file=PATH [--pages=8000] [--read-first] [--wait] [--linger]
#include "file_bytes.h"

static void WriteMapping(int fd, long pages, int read_first) {
  struct Truth truth = {.role = "child", .copies = read_first ? pages : 0, .file_copies = read_first ? 0 : pages};
  char* area = mmap(NULL, pages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  Check(area != MAP_FAILED, "mmap");
  if (read_first) ReadPages(area, pages);
  uint64_t* frames = RecordFrames(area, pages);
  WritePages(area, 0, pages);
  truth.pagemap_copies = CountMoved(frames, area, pages);
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 8000);
  struct Truth truth = {.role = "root"};
  int fd = MakeFile(TextOption(argc, argv, "--file", NULL), pages);
  AwaitStart(argc, argv);
  if (!Fork()) WriteMapping(fd, pages, Flag(argc, argv, "--read-first"));
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
