// A file of N pages to read: in memory, or on disk and cold. A cold one is read without read-ahead, so that the page
// cache allocates every page inside the read(2) under test, beside the copies of the reader's own pages.
#ifndef COWPROF_TESTS_SYSTEM_WORKLOADS_FILE_BYTES_H_
#define COWPROF_TESTS_SYSTEM_WORKLOADS_FILE_BYTES_H_

#include "workload.h"

static inline int MakeFile(const char* path, long pages) {
  char page[kPageBytes];
  int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : memfd_create("bytes", MFD_CLOEXEC);
  Check(fd >= 0, "make file");
  memset(page, 'x', sizeof(page));
  for (long i = 0; i < pages; ++i) Check(write(fd, page, sizeof(page)) == sizeof(page), "write file");
  if (path) Check(!fsync(fd), "fsync");
  return fd;
}

// Evicts a file on disk from the page cache. Returns how many of its pages are evicted.
static inline long MakeCold(int fd, long pages) {
  long cold = 0;
  Check(!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), "fadvise");
  Check(!posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), "fadvise");
  unsigned char* resident = MapShared(pages);
  void* view = mmap(NULL, pages * kPageBytes, PROT_READ, MAP_SHARED, fd, 0);
  Check(view != MAP_FAILED && !mincore(view, pages * kPageBytes, resident), "mincore");
  for (long i = 0; i < pages; ++i) cold += !(resident[i] & 1);
  munmap(view, pages * kPageBytes);
  munmap(resident, pages);
  return cold;
}

static inline void ReadFile(int fd, char* area, long pages) {
  for (long done = 0; done < pages * kPageBytes;) {
    ssize_t count = pread(fd, area + done, pages * kPageBytes - done, done);
    Check(count > 0, "pread");
    done += count;
  }
}

#endif  // COWPROF_TESTS_SYSTEM_WORKLOADS_FILE_BYTES_H_
