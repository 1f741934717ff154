// Measures mmap+munmap inside a large forked worker, because a profiler that reads its page tables holds the lock that they need.
// On every line on stdin the worker maps and unmaps for S seconds, copies C pages a second meanwhile (so that a profiler has work
// to do), and prints the quantiles in microseconds.
//   mmap_latency [--mib=4096] [--seconds=5] [--copies=10000]
#include "workload.h"

enum { kMostSamples = 8 << 20, kPagesAtOnce = 16 };

static uint32_t* samples;  // nanoseconds
static long copied;        // pages of the area, over all rounds

static int CompareSamples(const void* a, const void* b) {
  uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return (x > y) - (x < y);
}

static uint32_t TimeMapping(void) {
  int64_t start = BootNanoseconds();
  void* area = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(area, 1 << 20);
  return (uint32_t)(BootNanoseconds() - start);
}

static double Quantile(long count, double share) {
  long at = (long)(share * count);
  return samples[at < count ? at : count - 1] / 1000.0;
}

static void RunRound(char* area, long pages, long seconds, long copies_per_second) {
  int64_t start = BootNanoseconds(), end = start + seconds * 1000000000;
  long count = 0, first = copied;
  for (int64_t now = start; now < end && count < kMostSamples; now = BootNanoseconds()) {
    samples[count++] = TimeMapping();
    long due = first + (now - start) / 1000 * copies_per_second / 1000000;
    if (due - copied < kPagesAtOnce) continue;
    WritePages(area, copied % (pages - kPagesAtOnce), kPagesAtOnce);
    copied += kPagesAtOnce;
  }
  qsort(samples, count, sizeof(*samples), CompareSamples);
  dprintf(STDOUT_FILENO, "{\"samples\":%ld,\"p50\":%.2f,\"p99\":%.2f,\"p99_9\":%.2f,\"worst\":%.2f}\n", count,
          Quantile(count, 0.5), Quantile(count, 0.99), Quantile(count, 0.999), Quantile(count, 1));
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--mib", 4096) * 256, seconds = Option(argc, argv, "--seconds", 5);
  long copies = Option(argc, argv, "--copies", 10000);
  char* area = MapWritten(pages);
  char line[64];
  samples = MapShared(kMostSamples * sizeof(*samples));
  if (!Fork()) {
    dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"ready\"}\n", getpid());
    while (fgets(line, sizeof(line), stdin)) RunRound(area, pages, seconds, copies);
    _exit(0);
  }
  Reap(-1);
  return 0;
}
