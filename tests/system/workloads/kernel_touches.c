// A child lets system calls touch memory that it has not touched itself, while they fill the page cache: what the page cache
// takes is not the process's memory.
//   --write      its private memory, which is still empty, is written to a file: nothing is new, unless the kernel has no
//                shared page of zeroes (as under PVM with pvm_no_zero_page) and gives a new page to who reads an empty one
//   --shm-write  pages of shared memory that exist already are written to a file: none is added
//   --shm-read   a file that is not cached is read into such pages: the same
//   kernel_touches --write | --shm-write | --shm-read --file=PATH [--pages=20000] [--wait] [--linger]
#include "workload.h"

enum { kChunk = 1 << 16 };

static void PassToKernel(char* area, long bytes, int file, int read_it) {
  for (long at = 0; at < bytes; at += kChunk) {
    const long size = Smaller(kChunk, bytes - at);
    Check((read_it ? read(file, area + at, size) : write(file, area + at, size)) == size, "file");
  }
}

// Memory of a tmpfs file that write(2) has filled.
static char* MapFilledShm(long bytes) {
  static char chunk[kChunk];
  int fd = memfd_create("touched", MFD_CLOEXEC);
  Check(fd >= 0, "memfd_create");
  for (long at = 0; at < bytes; at += kChunk) Check(write(fd, chunk, Smaller(kChunk, bytes - at)) > 0, "write");
  char* area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  Check(area != MAP_FAILED, "mmap");
  return area;
}

static void MakeColdFile(const char* path, long bytes) {
  static char chunk[kChunk];
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  Check(file >= 0, path);
  for (long at = 0; at < bytes; at += kChunk) Check(write(file, chunk, Smaller(kChunk, bytes - at)) > 0, "write");
  Check(!fsync(file) && !posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), path);
  close(file);
}

static long ResidentPages(void) {
  long size = 0, resident = 0;
  FILE* statm = fopen("/proc/self/statm", "r");
  Check(statm && fscanf(statm, "%ld %ld", &size, &resident) == 2, "/proc/self/statm");
  fclose(statm);
  return resident;
}

static int ReadsTakePages(void) {
  const long pages = 4096;
  volatile char* area = MapPrivate(pages);
  const long before = ResidentPages();
  for (long i = 0; i < pages; ++i) (void)area[i * kPageBytes];
  const int taken = ResidentPages() - before > pages / 2;
  munmap((char*)area, pages * kPageBytes);
  return taken;
}

static int reads_take_pages;

static void Touch(const char* path, long pages, int shm, int read_it) {
  struct Truth truth = {.role = "child"};
  const long bytes = pages * kPageBytes;
  char* area = shm ? MapFilledShm(bytes) : MapPrivate(pages);
  int file = open(path, read_it ? O_RDONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  Check(file >= 0, path);
  PassToKernel(area, bytes, file, read_it);
  if (!shm && reads_take_pages) truth.zero_fills = pages;
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 20000);
  const char* path = TextOption(argc, argv, "--file", NULL);
  int read_it = Flag(argc, argv, "--shm-read");
  struct Truth truth = {.role = "root"};
  Check(path != NULL, "--file");
  if (read_it) MakeColdFile(path, pages * kPageBytes);
  reads_take_pages = ReadsTakePages();
  AwaitStart(argc, argv);
  if (!Fork()) Touch(path, pages, read_it || Flag(argc, argv, "--shm-write"), read_it);
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
