// Memory that grows at a planted rate, in a forked worker or in the target itself, and shapes that only look like growth:
//   ramp --kind=KIND --mb=N --rate=MB_PER_S [--base=MB] [--fork-base=MB] [--huge] [--wait]
//   new        a worker writes N MB of new memory
//   parent     the target itself writes it, while a worker sleeps
//   copy       a worker writes N MB that it inherited
//   file       a worker reads and writes N MB of a private mapping of a file, page by page
//   flat       the target writes N MB at that rate, then rests for --rest ms, as does a worker
//   saturate   a worker writes random pages of N inherited MB, three times as many as there are, then rests
//   quarters   four workers write a quarter of N inherited MB each, at that rate together, then rest
//   sawtooth   --teeth workers, one after another, copy N MB and end
//   reuse      the target repeatedly writes N MB that no worker shares any more
// The target holds --base MB before the ramp.
#include <signal.h>

#include "workload.h"

static long kMb = (1 << 20) / kPageBytes;  // pages

static char* MapHuge(long pages) {
  const uintptr_t huge = 2 << 20;
  char* area = mmap(NULL, pages * kPageBytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Check(area != MAP_FAILED, "mmap");
  area = (char*)(((uintptr_t)area + huge - 1) / huge * huge);
  madvise(area, pages * kPageBytes, MADV_HUGEPAGE);
  return area;
}

static char* MapFile(long pages) {
  int fd = fileno(tmpfile());
  Check(ftruncate(fd, pages * kPageBytes) == 0, "ftruncate");
  char* area = mmap(NULL, pages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  Check(area != MAP_FAILED, "mmap");
  return area;
}

static int read_first = 0;  // a page that was read takes another kind of fault when it is written

// Writes `pages` on schedule; when late, as fast as possible. With `order` NULL they are written in sequence.
static void WriteAtRate(char* area, long pages, double mb_per_second, const uint32_t* order) {
  const int64_t start = BootNanoseconds();
  long done = 0;
  while (done < pages) {
    double wanted = (BootNanoseconds() - start) / 1e9 * mb_per_second * kMb;
    long until = wanted < pages ? (long)wanted : pages;
    for (; done < until; ++done) {
      volatile char* page = area + (order ? order[done] : done) * kPageBytes;
      if (read_first) (void)*page;
      *page = (char)(done | 1);
    }
    if (done < pages) SleepNanoseconds(1000000);
  }
}

static const uint32_t* RandomOrder(long picks, long pages) {
  uint32_t* order = MapShared(picks * sizeof(uint32_t));
  uint64_t state = 1;
  for (long i = 0; i < picks; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    order[i] = (state >> 33) % pages;
  }
  return order;
}

static void Rest(long milliseconds) { SleepNanoseconds(milliseconds * 1000000); }

int main(int argc, char** argv) {
  const char* kind = TextOption(argc, argv, "--kind", "new");
  long pages = Option(argc, argv, "--mb", 100) * kMb, rest = Option(argc, argv, "--rest", 3000);
  double rate = Option(argc, argv, "--rate", 100);
  struct Truth truth = {.role = "root"};
  MapWritten(Option(argc, argv, "--base", 1) * kMb);
  int copies = !strcmp(kind, "copy") || !strcmp(kind, "saturate") || !strcmp(kind, "quarters") ||
               !strcmp(kind, "sawtooth") || !strcmp(kind, "reuse");
  read_first = !strcmp(kind, "file");
  char* area = copies                         ? MapWritten(pages)
               : read_first                   ? MapFile(pages)
               : Flag(argc, argv, "--huge")   ? MapHuge(pages)
                                              : MapPrivate(pages);
  const uint32_t* order = strcmp(kind, "saturate") ? NULL : RandomOrder(3 * pages, pages);
  AwaitStart(argc, argv);
  if (!strcmp(kind, "new") || !strcmp(kind, "copy") || !strcmp(kind, "saturate") || read_first) {
    if (!Fork()) {
      WriteAtRate(area, order ? 3 * pages : pages, rate, order);
      Rest(rest);
      _exit(0);
    }
    Reap(-1);
  } else if (!strcmp(kind, "parent") || !strcmp(kind, "flat")) {
    if (!strcmp(kind, "flat")) WriteAtRate(area, pages, rate, NULL);
    pid_t worker = Fork();
    if (!worker) for (;;) Rest(1000);
    if (!strcmp(kind, "parent")) WriteAtRate(area, pages, rate, NULL);
    Rest(rest);
    kill(worker, SIGTERM);
    Reap(-1);
  } else if (!strcmp(kind, "quarters")) {
    for (long worker = 0; worker < 4; ++worker) {
      if (Fork()) continue;
      WriteAtRate(area + worker * (pages / 4) * kPageBytes, pages / 4, rate / 4, NULL);
      Rest(rest);
      _exit(0);
    }
    for (long worker = 0; worker < 4; ++worker) Reap(-1);
  } else if (!strcmp(kind, "sawtooth")) {
    for (long tooth = Option(argc, argv, "--teeth", 4); tooth > 0; --tooth) {
      if (!Fork()) {
        WriteAtRate(area, pages, rate, NULL);
        _exit(0);
      }
      Reap(-1);
    }
  } else if (!strcmp(kind, "reuse")) {
    for (long round = 0; round < 4; ++round) {
      if (!Fork()) _exit(0);
      Reap(-1);
      WriteAtRate(area, pages, rate, NULL);
    }
  }
  Tell(&truth);
  return 0;
}
