// Runs a round for every line on stdin and prints the cost per page in nanoseconds, of copies (a forked child writes shared pages)
// or touches (fresh memory is written). One process runs all rounds, so that a profiler can attach and detach between them.
//   fault_loop --kind=copies|touches [--pages=50000] [--forks=4]
#include "workload.h"

// CPU time, so that other load on the machine matters less.
static int64_t ThreadNanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static int64_t TimeWrites(char* area, long pages) {
  int64_t start = ThreadNanoseconds();
  WritePages(area, 0, pages);
  return ThreadNanoseconds() - start;
}

// The child times its own writes and reports through shared memory.
static int64_t TimeCopies(char* area, long pages, int64_t* told) {
  if (!Fork()) {
    *told = TimeWrites(area, pages);
    _exit(0);
  }
  Reap(-1);
  return *told;
}

static int64_t TimeTouches(long pages) {
  char* area = MapPrivate(pages);
  int64_t nanoseconds = TimeWrites(area, pages);
  munmap(area, pages * kPageBytes);
  return nanoseconds;
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 50000), forks = Option(argc, argv, "--forks", 4);
  int copies = !strcmp(TextOption(argc, argv, "--kind", "copies"), "copies");
  char* area = copies ? MapWritten(pages) : NULL;
  int64_t* told = MapShared(sizeof(*told));
  char line[64];
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"ready\"}\n", getpid());
  while (fgets(line, sizeof(line), stdin)) {
    int64_t nanoseconds = 0;
    for (long i = 0; i < forks; ++i) nanoseconds += copies ? TimeCopies(area, pages, told) : TimeTouches(pages);
    dprintf(STDOUT_FILENO, "{\"ns_per_page\":%.1f}\n", (double)nanoseconds / (pages * forks));
  }
  return 0;
}
