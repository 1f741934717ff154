// One pid for many processes: successive children that all get the same pid (clone3 with set_tid, which needs CAP_SYS_ADMIN or
// CAP_CHECKPOINT_RESTORE), unless another process takes it in between. Child i copies its own number of pages and ends with its
// own code; some live a little longer, so that cowprof looks at them. The pid differs from the parent's by 4096, so both have the
// same low bits, by which the probes filter. At the end the parent touches new pages.
//   pid_reuse [--reuses=1000] [--touches=20000] [--wait] [--linger]
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "workload.h"

enum { kStep = 64, kSteps = 7, kExitCodes = 5, kLivesEvery = 25, kLifeNanoseconds = 20000000, kLowBits = 4096 };

// Forks a child with that pid, or any if `pid` is 0. Returns 0 in the child, -1 if the pid is taken.
static pid_t ForkAs(pid_t pid) {
  struct clone_args arguments = {.exit_signal = SIGCHLD};
  if (pid) {
    arguments.set_tid = (uintptr_t)&pid;
    arguments.set_tid_size = 1;
  }
  long child = syscall(SYS_clone3, &arguments, sizeof(arguments));
  Check(child >= 0 || errno == EEXIST, "clone3");
  return (pid_t)child;
}

static void RunChild(char* area, long number) {
  long pages = kStep * (1 + number % kSteps);
  WritePages(area, 0, pages);
  if (number % kLivesEvery == 0) SleepNanoseconds(kLifeNanoseconds);
  dprintf(STDOUT_FILENO, "{\"pid\":%ld,\"role\":\"child\",\"number\":%ld,\"planted_copies\":%ld,\"exit_code\":%ld}\n",
          syscall(SYS_getpid), number, pages, number % kExitCodes);
  _exit((int)(number % kExitCodes));
}

int main(int argc, char** argv) {
  long reuses = Option(argc, argv, "--reuses", 1000), forced = -1;  // the first one is not forced
  long touches = Option(argc, argv, "--touches", 20000);
  char* area = MapWritten(kStep * kSteps);
  pid_t pid = getpid() > 2 * kLowBits ? getpid() - kLowBits : getpid() + kLowBits;
  AwaitStart(argc, argv);
  for (long i = 0; forced < reuses; ++i) {
    pid_t child = ForkAs(pid);
    if (child < 0) child = ForkAs(0);
    if (!child) RunChild(area, i);
    forced += child == pid;
    Reap(child);
  }
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"reused\",\"reuses\":%ld}\n", getpid(), forced);
  Linger(argc, argv);
  WritePages(MapPrivate(touches), 0, touches);
  return 0;
}
