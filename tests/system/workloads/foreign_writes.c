// Another process writes into the pages that a child shares with its parent, by process_vm_writev(2) or, with --mem, through
// /proc/PID/mem. The writer is the parent or, with --outside, an orphan that belongs to no target. Such writes raise no exception.
//   foreign_writes [--pages=4000] [--mem] [--outside] [--wait] [--linger]
#define _GNU_SOURCE
#include <sys/uio.h>

#include "workload.h"

static char* area;
static long pages;

static void WriteByMem(pid_t pid) {
  char path[32];
  snprintf(path, sizeof(path), "/proc/%d/mem", pid);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  Check(fd >= 0, path);
  for (long i = 0; i < pages; ++i) Check(pwrite(fd, "m", 1, (off_t)(area + i * kPageBytes)) == 1, "write to mem");
  close(fd);
}

static void WriteByCall(pid_t pid) {
  struct iovec mine = {"v", 1};
  for (long i = 0; i < pages; ++i) {
    struct iovec theirs = {area + i * kPageBytes, 1};
    Check(process_vm_writev(pid, &mine, 1, &theirs, 1, 0) == 1, "process_vm_writev");
  }
}

// Writes into the process whose pid it reads from `orders`, then writes a byte to `done`.
static void WriteOnOrder(int orders, int done, int by_mem) {
  pid_t pid;
  if (read(orders, &pid, sizeof(pid)) != sizeof(pid)) return;
  (by_mem ? WriteByMem : WriteByCall)(pid);
  Check(write(done, "d", 1) == 1, "write");
}

static void StartOrphan(int orders, int done, int by_mem) {
  pid_t between = Fork();
  if (between) {
    Reap(between);
    return;
  }
  if (Fork()) _exit(0);
  WriteOnOrder(orders, done, by_mem);
  _exit(0);
}

static void BeWritten(int done) {
  struct Truth truth = {.role = "child", .copies = pages};
  char byte;
  Check(read(done, &byte, 1) == 1, "wait for the writer");
  truth.pagemap_copies = CountDiverged(getppid(), area, pages);
  Tell(&truth);
  _exit(0);
}

int main(int argc, char** argv) {
  int orders[2], done[2], outside = Flag(argc, argv, "--outside"), by_mem = Flag(argc, argv, "--mem");
  struct Truth truth = {.role = "root"};
  pages = Option(argc, argv, "--pages", 4000);
  Check(!pipe(orders) && !pipe(done), "pipe");
  area = MapWritten(pages);
  if (outside) StartOrphan(orders[0], done[1], by_mem);
  AwaitStart(argc, argv);
  pid_t child = Fork();
  if (!child) BeWritten(done[0]);
  Check(write(orders[1], &child, sizeof(child)) == sizeof(child), "write");
  if (!outside) WriteOnOrder(orders[0], done[1], by_mem);
  Reap(-1);
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
