// A child fills memory on one NUMA node and then uses it on a CPU of the other, until the kernel has moved its pages there (NUMA
// balancing, which does so in page faults). Nothing new: the line says how many were moved.
//   numa_moves --from=CPU --to=CPU [--pages=5000] [--seconds=60] [--wait] [--linger]
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>

#include "workload.h"

static void RunOn(long cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  Check(!sched_setaffinity(0, sizeof(cpus), &cpus), "sched_setaffinity");
}

static int NodeOf(void* page) {
  int node = -1;
  Check(!syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0), "move_pages");
  return node;
}

static long CountElsewhere(char* area, long pages, int node) {
  long elsewhere = 0;
  for (long i = 0; i < pages; ++i) elsewhere += NodeOf(area + i * kPageBytes) != node;
  return elsewhere;
}

static void UseOnTheOther(long pages, long from, long to, long seconds) {
  struct Truth truth = {.role = "child", .zero_fills = pages};
  RunOn(from);
  char* area = MapWritten(pages);
  const int node = NodeOf(area);
  RunOn(to);
  const time_t end = time(NULL) + seconds;
  long moved = 0;
  while (moved < pages * 9 / 10 && time(NULL) < end) {
    for (int i = 0; i < 200; ++i) WritePages(area, 0, pages);
    moved = CountElsewhere(area, pages, node);
  }
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"nodes\",\"moved\":%ld}\n", getpid(), moved);
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  struct Truth truth = {.role = "root"};
  AwaitStart(argc, argv);
  if (!Fork())
    UseOnTheOther(Option(argc, argv, "--pages", 5000), Option(argc, argv, "--from", 0), Option(argc, argv, "--to", 1),
                  Option(argc, argv, "--seconds", 60));
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
