// A parent that has freed every other of its blocks before it forks, and a worker that allocates in their place, or
// really writes. freed_memory MODE [BLOCKS] prints what the worker planted as a line of JSON. Modes: allocate;
// read-file (filled by read(2)); write (to kept blocks, in place); late (the same, freed by the parent after the fork);
// mixed (blocks of 1 KiB: on one half of the pages the worker first writes to one that it allocates, on the other to
// one that was kept); other-arena (as allocate, in a thread that has an arena of its own); again (a worker allocates
// what was free, forks, and writes to it again); commands (as allocate, after some hundred commands, each forked while
// there was free memory, and run by exec).
#include <malloc.h>
#include <pthread.h>

#include "workload.h"

enum { kBlocks = 512, kBlockBytes = 150000, kSmall = 1008, kMostSmall = 65536 };
// Each free block has two pages in part. All commands together leave more of those than the recorder has room for
// (16,384), and those of one second a third.
enum { kCommands = 250, kFreeBeforeCommands = 48, kCommandGapUs = 20000 };

static const char* mode;
static char* volatile kept[kBlocks], * volatile freed[kBlocks], * volatile small[kMostSmall];

static int Is(const char* name) { return !strcmp(mode, name); }

static void Fill(void) {
  for (int i = 0; i < kBlocks; ++i) {
    memset(kept[i] = malloc(kBlockBytes), 1, kBlockBytes);
    memset(freed[i] = malloc(kBlockBytes), 2, kBlockBytes);
  }
}

static void Free(char* volatile* blocks) {
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
}

static void WriteInPlace(char* volatile* blocks) {
  for (int i = 0; i < kBlocks; ++i)
    for (int at = 0; at < kBlockBytes; at += 512) blocks[i][at] /= 2;
}

static void Allocate(void) {
  int zeroes = open("/dev/zero", O_RDONLY);
  for (int i = 0; i < kBlocks; ++i) {
    freed[i] = malloc(kBlockBytes);
    if (Is("read-file"))
      Check(read(zeroes, freed[i], kBlockBytes) == kBlockBytes, "read");
    else
      memset(freed[i], 3, kBlockBytes);
  }
}

static void RunCommands(void) {
  for (int i = 0; i < kFreeBeforeCommands; ++i) {
    free(freed[i]);
    freed[i] = NULL;
  }
  usleep(800000);  // until the recorder knows the program
  for (int i = 0; i < kCommands; ++i) {
    pid_t command = fork();
    if (command == 0) {
      execl("/bin/true", "true", NULL);
      _exit(1);
    }
    waitpid(command, NULL, 0);
    usleep(kCommandGapUs);
  }
}

static void* ForkAndWork(void* unused) {
  (void)unused;
  Fill();
  if (Is("commands")) RunCommands();
  if (!Is("late")) Free(freed);
  usleep(800000);  // until the recorder knows the program
  pid_t child = fork();
  if (child == 0) {
    usleep(300000);
    if (Is("write") || Is("late"))
      WriteInPlace(kept);
    else
      Allocate();
    if (Is("again")) {
      pid_t grandchild = fork();
      if (grandchild == 0) {
        usleep(300000);
        WriteInPlace(freed);
        usleep(600000);
        _exit(0);
      }
      waitpid(grandchild, NULL, 0);
    }
    usleep(600000);
    _exit(0);
  }
  if (Is("late")) {
    Free(kept);
    Free(freed);
  }
  waitpid(child, NULL, 0);
  printf("{\"event\": \"done\", \"pages\": %d}\n", kBlocks * (kBlockBytes + 16) / kPageBytes);
  return NULL;
}

static void Mixed(int blocks) {
  for (int i = 0; i < blocks; ++i) memset(small[i] = malloc(kSmall), 1, kSmall);
  // Some stay in malloc's cache of the thread, where they count as in use.
  for (int i = 0; i < blocks; i += 2) free(small[i]);
  usleep(800000);
  pid_t child = fork();
  if (child == 0) {
    usleep(300000);
    uintptr_t last = 0;
    for (int i = 1; i < blocks / 2; i += 2) {
      uintptr_t page = (uintptr_t)(small[i] + 500) / kPageBytes;
      if (page != last) small[i][500] = 2;
      last = page;
    }
    uintptr_t middle = (uintptr_t)small[blocks / 2] / kPageBytes;
    for (int i = 0; i < blocks / 2; ++i) {
      small[2 * i] = malloc(kSmall);
      if ((uintptr_t)small[2 * i] / kPageBytes > middle) memset(small[2 * i], 3, kSmall);
    }
    usleep(600000);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  int pages = blocks / 2 * (kSmall + 16) / kPageBytes;
  printf("{\"event\": \"done\", \"malloc_reuse\": %d, \"data\": %d}\n", pages, pages);
}

int main(int argc, char** argv) {
  mode = argc > 1 ? argv[1] : "allocate";
  mallopt(M_MMAP_THRESHOLD, 1 << 25);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  pthread_t thread;
  if (Is("mixed")) {
    Mixed(argc > 2 ? atoi(argv[2]) : kMostSmall);
  } else if (Is("other-arena")) {
    Check(!pthread_create(&thread, NULL, ForkAndWork, NULL), "pthread_create");
    pthread_join(thread, NULL);
  } else {
    ForkAndWork(NULL);
  }
  return 0;
}
