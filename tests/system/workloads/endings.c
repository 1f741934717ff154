// Children that end in every way: an exit code, SIGKILL by themselves or by the parent, SIGSEGV, SIGABRT, SIGTERM, and SIGBUS from
// a truncated mapped file. Each first announces how it is going to end.
//   endings --file=PATH [--wait] [--linger]
#include <signal.h>

#include "workload.h"

static const char* path;

static void TellEnding(const char* by, int exit_code, int signal_number) {
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"ending\",\"by\":\"%s\",\"code\":%d,\"signal\":%d}\n", getpid(), by, exit_code,
          signal_number);
}

static void EndByCode(void) {
  TellEnding("exit 7", 7, 0);
  _exit(7);
}

static void EndBySuccess(void) {
  TellEnding("exit 0", 0, 0);
  _exit(0);
}

static void EndByOwnKill(void) {
  TellEnding("kill self", 0, SIGKILL);
  kill(getpid(), SIGKILL);
}

static void EndByParent(int told) {
  TellEnding("killed by parent", 0, SIGKILL);
  close(told);
  for (;;) pause();
}

// Kills a child once it has announced its end.
static void KillChild(void) {
  int told[2];
  char c;
  Check(!pipe(told), "pipe");
  pid_t victim = Fork();
  if (!victim) EndByParent(told[1]);
  close(told[1]);
  Check(read(told[0], &c, 1) == 0, "child");
  kill(victim, SIGKILL);
  Reap(victim);
}

static void EndBySegmentationFault(void) {
  TellEnding("segfault", 0, SIGSEGV);
  *(volatile char*)mmap(NULL, kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
}

static void EndByAbort(void) {
  TellEnding("abort", 0, SIGABRT);
  abort();
}

static void EndByTerm(void) {
  TellEnding("terminate self", 0, SIGTERM);
  kill(getpid(), SIGTERM);
}

static void EndByBusError(void) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  Check(fd >= 0 && !ftruncate(fd, 4 * kPageBytes), "file");
  char* area = mmap(NULL, 4 * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  Check(area != MAP_FAILED, "mmap");
  Check(!ftruncate(fd, kPageBytes), "truncate");
  TellEnding("truncated file", 0, SIGBUS);
  area[3 * kPageBytes] = 1;
}

int main(int argc, char** argv) {
  void (*const endings[])(void) = {EndByCode,  EndBySuccess, EndByOwnKill, EndBySegmentationFault,
                                   EndByAbort, EndByTerm,    EndByBusError};
  struct Truth truth = {.role = "root"};
  const struct rlimit no_core = {0, 0};
  path = TextOption(argc, argv, "--file", "endings.bytes");
  setrlimit(RLIMIT_CORE, &no_core);
  AwaitStart(argc, argv);
  for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); ++i) {
    if (!Fork()) endings[i]();
    Reap(-1);
  }
  KillChild();
  Linger(argc, argv);
  Tell(&truth);
  return 0;
}
