// Forks a child per round, which reports its time through a shared page.
#include "source/copy_calibration.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr int kRounds = 3;
constexpr uint64_t kPages = 1024;

void WriteEachPage(volatile char* area, uint64_t page_bytes) {
  for (uint64_t page = 0; page < kPages; ++page) area[page * page_bytes] = 1;
}

}  // namespace

double CalibrateCopy(uint64_t page_bytes) {
  const size_t bytes = kPages * page_bytes;
  void* area = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* told = mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED || told == MAP_FAILED) return 0;
  madvise(area, bytes, MADV_NOHUGEPAGE);
  WriteEachPage(static_cast<char*>(area), page_bytes);
  double least = 0;
  for (int round = 0; round < kRounds; ++round) {
    volatile double* ns = static_cast<double*>(told);
    *ns = 0;
    const pid_t child = fork();
    if (child == 0) {
      const absl::Duration before = ReadClock(CLOCK_THREAD_CPUTIME_ID);
      WriteEachPage(static_cast<char*>(area), page_bytes);
      *ns = absl::ToDoubleNanoseconds(ReadClock(CLOCK_THREAD_CPUTIME_ID) - before) / kPages;
      _exit(0);
    }
    if (child < 0) break;
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    const double cost = *ns;
    if (cost > 0) least = least == 0 ? cost : std::min(least, cost);
  }
  munmap(area, bytes);
  munmap(told, sizeof(double));
  return least;
}

}  // namespace cowprof
