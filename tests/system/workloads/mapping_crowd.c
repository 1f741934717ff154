// A worker with very many mappings, or with a huge reserved address space. The root makes M mappings that can't be merged and
// reserves G GiB twice, once with PROT_NONE and once writable with one page touched; then it forks a worker. For each line on
// stdin the worker copies K of the inherited pages and times mmap+munmap for S seconds, in microseconds.
//   mapping_crowd [--mappings=100000] [--gib=0] [--seconds=2] [--pages=1000]
#include "workload.h"

enum { kMostSamples = 4 << 20 };

static uint32_t* samples;  // nanoseconds

static int CompareSamples(const void* a, const void* b) {
  uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return (x > y) - (x < y);
}

// Makes every second page read-only, because neighbours with different protection are not merged.
static void MakeMappings(long mappings) {
  char* area = MapPrivate(mappings);
  for (long i = 1; i < mappings; i += 2)
    Check(!mprotect(area + i * kPageBytes, kPageBytes, PROT_READ), "mprotect");
}

static void Reserve(long gib, int rights) {
  char* area = mmap(NULL, gib << 30, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Check(area != MAP_FAILED, "reserve");
  if (rights & PROT_WRITE) *(volatile char*)(area + (gib << 29)) = 1;
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

static void RunRound(char* area, long pages, long seconds) {
  long count = 0;
  int64_t end = BootNanoseconds() + seconds * 1000000000;
  WritePages(area, 0, pages);
  while (count < kMostSamples && BootNanoseconds() < end) samples[count++] = TimeMapping();
  qsort(samples, count, sizeof(*samples), CompareSamples);
  dprintf(STDOUT_FILENO, "{\"samples\":%ld,\"p50\":%.2f,\"p99\":%.2f,\"p99_9\":%.2f,\"worst\":%.2f}\n", count,
          Quantile(count, 0.5), Quantile(count, 0.99), Quantile(count, 0.999), Quantile(count, 1));
}

int main(int argc, char** argv) {
  long mappings = Option(argc, argv, "--mappings", 100000), gib = Option(argc, argv, "--gib", 0);
  long seconds = Option(argc, argv, "--seconds", 2), pages = Option(argc, argv, "--pages", 1000);
  char* area = MapWritten(pages);
  char line[64];
  samples = MapShared(kMostSamples * sizeof(*samples));
  MakeMappings(mappings);
  if (gib) {
    Reserve(gib, PROT_NONE);
    Reserve(gib, PROT_READ | PROT_WRITE);
  }
  if (!Fork()) {
    dprintf(STDOUT_FILENO, "{\"pid\":%d,\"parent\":%d,\"role\":\"ready\"}\n", getpid(), getppid());
    while (fgets(line, sizeof(line), stdin)) RunRound(area, pages, seconds);
    _exit(0);
  }
  Reap(-1);
  return 0;
}
