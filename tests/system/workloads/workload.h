// What all planted workloads share: areas without huge pages, frames read from pagemap (the truth, independent of the
// tool under test), one JSON line per process on stdout, and the handshake with the test. Plain functions without
// state; each workload is one file that includes this. Children end with _exit, so that they write nothing unplanned.
#ifndef COWPROF_TESTS_SYSTEM_WORKLOADS_WORKLOAD_H_
#define COWPROF_TESTS_SYSTEM_WORKLOADS_WORKLOAD_H_

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kPageBytes = 4096, kEntriesPerRead = 512 };

// ---- Arguments: --name=value and --name ----

static inline const char* TextOption(int argc, char** argv, const char* name, const char* otherwise) {
  size_t length = strlen(name);
  for (int i = 1; i < argc; ++i)
    if (!strncmp(argv[i], name, length) && argv[i][length] == '=') return argv[i] + length + 1;
  return otherwise;
}

static inline long Option(int argc, char** argv, const char* name, long otherwise) {
  const char* text = TextOption(argc, argv, name, NULL);
  return text ? strtol(text, NULL, 10) : otherwise;
}

static inline int Flag(int argc, char** argv, const char* name) {
  for (int i = 1; i < argc; ++i)
    if (!strcmp(argv[i], name)) return 1;
  return 0;
}

static inline void Check(int ok, const char* what) {
  if (ok) return;
  perror(what);
  _exit(99);
}

// ---- Memory ----

// Private anonymous pages of 4 KiB, not yet populated.
static inline char* MapPrivate(long pages) {
  char* area = mmap(NULL, pages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Check(area != MAP_FAILED, "mmap");
  madvise(area, pages * kPageBytes, MADV_NOHUGEPAGE);
  return area;
}

// Memory that stays shared across forks, so that processes can communicate without a copy.
static inline void* MapShared(size_t bytes) {
  void* area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  Check(area != MAP_FAILED, "mmap");
  return area;
}

static inline void WritePages(char* area, long first, long pages) {
  for (long i = first; i < first + pages; ++i) *(volatile char*)(area + i * kPageBytes) = (char)(i | 1);
}

static inline long ReadPages(const char* area, long pages) {
  long sum = 0;
  for (long i = 0; i < pages; ++i) sum += *(const volatile char*)(area + i * kPageBytes);
  return sum;
}

static inline char* MapWritten(long pages) {
  char* area = MapPrivate(pages);
  WritePages(area, 0, pages);
  return area;
}

// ---- Truth: page frames ----

static const uint64_t kPresent = 1ull << 63, kExclusive = 1ull << 56, kFrameMask = (1ull << 55) - 1;

static inline int OpenPagemap(pid_t pid) {
  char path[32];
  snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  Check(fd >= 0, path);
  return fd;
}

static inline void ReadEntries(int pagemap, const char* at, long pages, uint64_t* entries) {
  ssize_t bytes = pages * sizeof(uint64_t);
  Check(pread(pagemap, entries, bytes, (uintptr_t)at / kPageBytes * sizeof(uint64_t)) == bytes, "read pagemap");
}

static inline long Smaller(long a, long b) { return a < b ? a : b; }

// Number of pages of `area` whose frame differs between this process and `other`. Without the privilege to see frames:
// the number of pages that no other process maps.
static inline long CountDiverged(pid_t other, const char* area, long pages) {
  static uint64_t mine[kEntriesPerRead], theirs[kEntriesPerRead];
  int my_map = OpenPagemap(getpid()), their_map = OpenPagemap(other);
  long diverged = 0;
  for (long first = 0; first < pages; first += kEntriesPerRead) {
    long count = Smaller(kEntriesPerRead, pages - first);
    ReadEntries(my_map, area + first * kPageBytes, count, mine);
    ReadEntries(their_map, area + first * kPageBytes, count, theirs);
    for (long i = 0; i < count; ++i) {
      if (!(mine[i] & kPresent)) continue;
      diverged += mine[i] & kFrameMask ? (mine[i] & kFrameMask) != (theirs[i] & kFrameMask) : !!(mine[i] & kExclusive);
    }
  }
  close(my_map);
  close(their_map);
  return diverged;
}

static inline long CountPresent(const char* area, long pages) {
  static uint64_t entries[kEntriesPerRead];
  int map = OpenPagemap(getpid());
  long present = 0;
  for (long first = 0; first < pages; first += kEntriesPerRead) {
    long count = Smaller(kEntriesPerRead, pages - first);
    ReadEntries(map, area + first * kPageBytes, count, entries);
    for (long i = 0; i < count; ++i) present += !!(entries[i] & kPresent);
  }
  close(map);
  return present;
}

// The current frames of `area`, stored in shared memory, so that storing them plants nothing.
static inline uint64_t* RecordFrames(const char* area, long pages) {
  uint64_t* frames = MapShared(pages * sizeof(uint64_t));
  int map = OpenPagemap(getpid());
  ReadEntries(map, area, pages, frames);
  close(map);
  return frames;
}

// Number of pages of `area` whose frame has changed since `frames` was recorded.
static inline long CountMoved(const uint64_t* frames, const char* area, long pages) {
  static uint64_t now[kEntriesPerRead];
  int map = OpenPagemap(getpid());
  long moved = 0;
  for (long first = 0; first < pages; first += kEntriesPerRead) {
    long count = Smaller(kEntriesPerRead, pages - first);
    ReadEntries(map, area + first * kPageBytes, count, now);
    for (long i = 0; i < count; ++i) moved += (now[i] & kFrameMask) != (frames[first + i] & kFrameMask);
  }
  close(map);
  return moved;
}

// ---- Output for the test ----

struct Truth {
  const char* role;
  long copies, reuses, zero_fills, file_copies, shm_pages;
  long pagemap_copies;
  int exit_code;
};

static inline long FaultsSoFar(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

static inline void Tell(const struct Truth* truth) {
  dprintf(
      STDOUT_FILENO,
      "{\"pid\":%d,\"parent\":%d,\"role\":\"%s\",\"planted_copies\":%ld,\"planted_reuses\":%ld,\"planted_zero_fills\":%"
      "ld,"
      "\"planted_file_copies\":%ld,\"planted_shm_pages\":%ld,\"pagemap_copies\":%ld,\"exit_code\":%d,\"faults\":%ld}\n",
      getpid(), getppid(), truth->role, truth->copies, truth->reuses, truth->zero_fills, truth->file_copies,
      truth->shm_pages, truth->pagemap_copies, truth->exit_code, FaultsSoFar());
}

// ---- The handshake ----

// With --wait: prints "ready" and waits for a line from the test, so that a profiler can attach first.
static inline void AwaitStart(int argc, char** argv) {
  char c = 0;
  if (!Flag(argc, argv, "--wait")) return;
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"ready\"}\n", getpid());
  while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n') continue;
}

// With --linger: prints "done" and waits until stdin is closed.
static inline void Linger(int argc, char** argv) {
  char c = 0;
  if (!Flag(argc, argv, "--linger")) return;
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"done\"}\n", getpid());
  while (read(STDIN_FILENO, &c, 1) == 1) continue;
}

// ---- Processes ----

static inline pid_t Fork(void) {
  pid_t pid = fork();
  Check(pid >= 0, "fork");
  return pid;
}

// Waits for one child, or for every child if `pid` is -1. Returns the wait status of the last one.
static inline int Reap(pid_t pid) {
  int status = 0;
  if (pid > 0) {
    Check(waitpid(pid, &status, 0) == pid, "waitpid");
    return status;
  }
  while (wait(&status) > 0) continue;
  return status;
}

static inline int64_t BootNanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static inline void SleepNanoseconds(long nanoseconds) {
  struct timespec duration = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  nanosleep(&duration, NULL);
}

#endif  // COWPROF_TESTS_SYSTEM_WORKLOADS_WORKLOAD_H_
