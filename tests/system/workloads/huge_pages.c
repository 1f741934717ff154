// A child writes one byte in each page, or with --sparse in each huge page, of memory that it shares with its parent as huge pages
// of 2 MiB. The kernel splits the huge page and copies only the written 4 KiB.
//   huge_pages [--huge=8] [--sparse] [--wait] [--linger]
#include "workload.h"

enum { kHugeBytes = 2 << 20 };

static char* MapHuge(long huge) {
  char* area = mmap(NULL, (huge + 1) * kHugeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Check(area != MAP_FAILED, "mmap");
  area = (char*)(((uintptr_t)area + kHugeBytes - 1) & ~(uintptr_t)(kHugeBytes - 1));
  madvise(area, huge * kHugeBytes, MADV_HUGEPAGE);
  WritePages(area, 0, huge * kHugeBytes / kPageBytes);
  return area;
}

// KiB of this process's memory that are in huge pages.
static long HugeKib(void) {
  char line[256];
  long kib = 0, sum = 0;
  FILE* smaps = fopen("/proc/self/smaps", "re");
  Check(smaps != NULL, "open smaps");
  while (fgets(line, sizeof(line), smaps))
    if (sscanf(line, "AnonHugePages: %ld", &kib) == 1) sum += kib;
  fclose(smaps);
  return sum;
}

static void WriteShared(char* area, long huge, long stride) {
  struct Truth truth = {.role = "child", .copies = huge * kHugeBytes / stride};
  for (long at = 0; at < huge * kHugeBytes; at += stride) ((volatile char*)area)[at] = 1;
  truth.pagemap_copies = CountDiverged(getppid(), area, huge * kHugeBytes / kPageBytes);
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  long huge = Option(argc, argv, "--huge", 8);
  struct Truth truth = {.role = "root"};
  char* area = MapHuge(huge);
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"memory\",\"huge_kib\":%ld}\n", getpid(), HugeKib());
  AwaitStart(argc, argv);
  if (!Fork()) WriteShared(area, huge, Flag(argc, argv, "--sparse") ? kHugeBytes : kPageBytes);
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
