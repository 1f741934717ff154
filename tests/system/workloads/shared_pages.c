// Workers that do nothing between steps, so that a page map can be compared with the truth at that moment. Each line on stdin is
// a step: the first forks the workers, the second lets them (and the parent) write, the third forks another generation, the
// fourth lets that one write. --mode plants who shares what with whom:
//   copies   workers write the pages that they inherited       parent   the parent writes them, the workers nothing
//   both     workers write the first half, the parent the rest  zero    the parent only reads its pages, workers write them
//   new      parent and workers map the same new addresses and write there      file   workers write a private file mapping
//   huge     of each 8 pages in huge pages the workers write the second          drop   workers give the pages back, then write
//   middle   like copies, and each worker has a child that only holds them
//   exec     workers write the pages, then exec another program      hugetlb  hugetlb pages, of which workers write half
// The parent writes all pages, and after one more step:
//   left     the workers write them, too       busy     the workers write new memory       still    the parent writes new memory
//   shared_pages --mode=copies [--pages=20000] [--workers=1]
#include "workload.h"

#include <signal.h>
#include <sys/prctl.h>

enum { kHugePages = 512, kHuge2Mib = 21 << MAP_HUGE_SHIFT };  // pages in a huge page of 2 MiB; mmap's flag for it

static const char* mode;
static char* area;
static long pages;
static int file;

static int Is(const char* name) { return !strcmp(mode, name); }

static int Step(void) {
  char c = 0;
  while (read(STDIN_FILENO, &c, 1) == 1)
    if (c == '\n') return 1;
  return 0;
}

static void WriteNewPages(void) { WritePages(MapPrivate(pages), 0, pages); }

static void ActAsWorker(void) {
  if (Is("copies") || Is("middle") || Is("zero") || Is("exec")) WritePages(area, 0, pages);
  if (Is("both")) WritePages(area, 0, pages / 2);
  if (Is("hugetlb"))
    for (long i = 0; i < pages / 2; i += kHugePages) area[i * kPageBytes] = 3;
  if (Is("new")) WriteNewPages();
  if (Is("huge"))
    for (long i = 1; i < pages; i += 8) area[i * kPageBytes] = 3;
  if (Is("file")) {
    char* map = mmap(NULL, pages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    Check(map != MAP_FAILED, "mmap");
    WritePages(map, 0, pages);
  }
  if (Is("drop")) {
    madvise(area, pages * kPageBytes, MADV_DONTNEED);
    WritePages(area, 0, pages);
  }
}

static int ActsAgain(void) { return Is("left") || Is("busy") || Is("still"); }

static void Say(const char* role) {
  char line[96];
  int length = snprintf(line, sizeof(line), "{\"pid\":%d,\"role\":\"%s\"}\n", getpid(), role);
  Check(write(STDOUT_FILENO, line, length) == length, "write");
}

static void RunWorker(int go, int again) {
  char c;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (Is("middle") && !Fork()) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  Say("worker");
  if (read(go, &c, 1) != 1) _exit(0);
  ActAsWorker();
  Say("acted");
  if (ActsAgain() && read(again, &c, 1) == 1) {
    if (Is("left")) WritePages(area, 0, pages);
    if (Is("busy")) WriteNewPages();
    Say("again");
  }
  if (Is("exec")) execl("/bin/sleep", "sleep", "1000", NULL);
  for (;;) pause();
}

static void LetGo(int go, long workers) {
  for (long i = 0; i < workers; ++i) Check(write(go, "g", 1) == 1, "write");
}

// Forks workers and lets them write at the next step. Returns 0 at the end of stdin.
static int RunGeneration(long workers) {
  int go[2], again[2];
  Check(!pipe2(go, O_CLOEXEC) && !pipe2(again, O_CLOEXEC), "pipe2");
  for (long i = 0; i < workers; ++i)
    if (!Fork()) RunWorker(go[0], again[0]);
  if (!Step()) return 0;
  LetGo(go[1], workers);
  if (Is("parent") || ActsAgain()) WritePages(area, 0, pages);
  if (Is("both")) WritePages(area, pages / 2, pages - pages / 2);
  if (Is("new")) WriteNewPages();
  Say("acted");
  if (ActsAgain()) {
    if (!Step()) return 0;
    if (Is("still")) {
      WriteNewPages();
      Say("again");
    } else {
      LetGo(again[1], workers);
    }
  }
  return Step();
}

int main(int argc, char** argv) {
  long workers = Option(argc, argv, "--workers", 1);
  mode = TextOption(argc, argv, "--mode", "copies");
  pages = Option(argc, argv, "--pages", 20000);
  signal(SIGCHLD, SIG_IGN);
  area = MapPrivate(pages);
  if (Is("huge")) {
    uint64_t huge = kHugePages * kPageBytes;
    area = mmap(NULL, pages * kPageBytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Check(area != MAP_FAILED, "mmap");
    area = (char*)(((uintptr_t)area + huge - 1) / huge * huge);
    madvise(area, pages * kPageBytes, MADV_HUGEPAGE);
  }
  if (Is("hugetlb")) {
    area = mmap(NULL, pages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | kHuge2Mib, -1, 0);
    Check(area != MAP_FAILED, "mmap of huge pages");
  }
  file = fileno(tmpfile());
  Check(!ftruncate(file, pages * kPageBytes), "ftruncate");
  if (Is("zero"))
    ReadPages(area, pages);
  else
    WritePages(area, 0, pages);
  Say("ready");
  if (Step() && RunGeneration(workers)) RunGeneration(workers);
  return 0;
}
