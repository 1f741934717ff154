// Workers that copy at a steady rate and do other work in between, in one round for every line on stdin. Prints the work done per
// second by all of them together, so that the cost of counting copies shows as work that was not done.
//   paced_copies [--workers=2] [--rate=10000] [--seconds=2]
#include "workload.h"

enum { kSlotsASecond = 100 };

static volatile uint64_t sink;

// About a microsecond of arithmetic.
static void WorkOneUnit(void) {
  uint64_t value = sink;
  for (int i = 0; i < 400; ++i) value = value * 6364136223846793005ull + 1442695040888963407ull;
  sink = value;
}

// Copies its share at the start of each slot, then works until the slot is over. Does not make up for late slots.
static long RunWorker(char* area, long pages_a_slot, long slots) {
  int64_t start = BootNanoseconds();
  long units = 0;
  for (long slot = 0; slot < slots; ++slot) {
    WritePages(area, slot * pages_a_slot, pages_a_slot);
    int64_t end = start + (slot + 1) * (1000000000ll / kSlotsASecond);
    for (; BootNanoseconds() < end; ++units) WorkOneUnit();
  }
  return units;
}

int main(int argc, char** argv) {
  long workers = Option(argc, argv, "--workers", 2), rate = Option(argc, argv, "--rate", 10000);
  long seconds = Option(argc, argv, "--seconds", 2), slots = seconds * kSlotsASecond;
  char* area = MapWritten(rate * seconds);
  long* units = MapShared(workers * sizeof(*units));
  char line[64];
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"ready\"}\n", getpid());
  while (fgets(line, sizeof(line), stdin)) {
    long sum = 0;
    for (long i = 0; i < workers; ++i) {
      if (Fork()) continue;
      units[i] = RunWorker(area, rate / kSlotsASecond, slots);
      _exit(0);
    }
    for (long i = 0; i < workers; ++i) Reap(-1);
    for (long i = 0; i < workers; ++i) sum += units[i];
    dprintf(STDOUT_FILENO, "{\"units_per_second\":%.1f}\n", (double)sum / seconds);
  }
  return 0;
}
