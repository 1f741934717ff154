// Threads of a forked child write the pages that it shares with its parent. Four threads write disjoint parts. With --race two
// threads meet at a barrier before every page and write the same one: the truth is the number of pages, not of writes.
//   thread_copies [--pages=20000] [--race] [--wait] [--linger]
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "workload.h"

enum { kDisjointThreads = 4, kRacingThreads = 2, kTurnsBeforeYield = 2000 };

static char* area;
static long pages, part;
static atomic_long arrived;

static void* WritePart(void* number) {
  WritePages(area, (long)number * part, part);
  return NULL;
}

// Spins, so that both threads leave at the same instant, but yields in case the other thread has no processor.
static void AwaitArrivals(long count) {
  for (long turn = 1; atomic_load(&arrived) < count; ++turn)
    if (turn % kTurnsBeforeYield == 0) sched_yield();
}

static void* WriteRacing(void* unused) {
  (void)unused;
  for (long i = 0; i < pages; ++i) {
    atomic_fetch_add(&arrived, 1);
    AwaitArrivals((i + 1) * kRacingThreads);
    *(volatile char*)(area + i * kPageBytes) = 1;
  }
  return NULL;
}

static void RunThreads(int count, void* (*work)(void*)) {
  pthread_t threads[kDisjointThreads];
  for (long i = 0; i < count; ++i) Check(!pthread_create(&threads[i], NULL, work, (void*)i), "pthread_create");
  for (long i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

static void RunChild(int race) {
  struct Truth truth = {.role = "child", .copies = pages};
  RunThreads(race ? kRacingThreads : kDisjointThreads, race ? WriteRacing : WritePart);
  truth.pagemap_copies = CountDiverged(getppid(), area, pages);
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  struct Truth truth = {.role = "root"};
  part = Option(argc, argv, "--pages", 20000) / kDisjointThreads;
  pages = part * kDisjointThreads;
  area = MapWritten(pages);
  AwaitStart(argc, argv);
  if (!Fork()) RunChild(Flag(argc, argv, "--race"));
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
