// A parent reuses its pages: its child has exited (or, with --child-copies, has its own copies), so the parent's writes raise
// write-protection faults but copy nothing. With --by-read the kernel writes on its behalf; with --file from a cold file.
//   parent_reuses [--pages=60000] [--child-copies] [--by-read] [--file=PATH] [--wait] [--linger]
#include "file_bytes.h"

static void RunChild(char* area, long pages, int copies, int told, int hold) {
  struct Truth truth = {.role = "child", .copies = copies ? pages : 0};
  char c;
  if (copies) WritePages(area, 0, pages);
  if (copies) truth.pagemap_copies = CountDiverged(getppid(), area, pages);
  Tell(&truth);
  if (copies && write(told, "", 1) == 1) Check(read(hold, &c, 1) == 0, "hold");
  _exit(0);
}

// Returns once only the parent maps its pages. A child with copies lives on until the returned descriptor is closed.
static int LetChildGo(char* area, long pages, int copies) {
  int told[2], hold[2];
  char c;
  Check(!pipe2(told, O_CLOEXEC) && !pipe2(hold, O_CLOEXEC), "pipe2");
  if (!Fork()) {
    close(hold[1]);
    RunChild(area, pages, copies, told[1], hold[0]);
  }
  close(told[1]);
  if (copies)
    Check(read(told[0], &c, 1) == 1, "child");
  else
    Reap(-1);
  return hold[1];
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 60000), cold = 0;
  const char* path = TextOption(argc, argv, "--file", NULL);
  struct Truth truth = {.role = "root", .reuses = pages};
  int by_read = path || Flag(argc, argv, "--by-read");
  char* area = MapWritten(pages);
  uint64_t* frames = RecordFrames(area, pages);
  int fd = by_read ? MakeFile(path, pages) : -1;
  AwaitStart(argc, argv);
  if (path) cold = MakeCold(fd, pages);
  int release = LetChildGo(area, pages, Flag(argc, argv, "--child-copies"));
  if (by_read)
    ReadFile(fd, area, pages);
  else
    WritePages(area, 0, pages);
  truth.pagemap_copies = CountMoved(frames, area, pages);
  close(release);
  Reap(-1);
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"file\",\"cold_pages\":%ld}\n", getpid(), cold);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
