// A process tree in constant motion, for tests of the attach: branches fork leaves without pause, and each branch has a twig that
// does the same. Every process that lives at the attach or is born later must be tracked exactly once. Each leaf prints when
// it was born and when it ended (CLOCK_BOOTTIME). A line or end of file on stdin stops the tree.
//   attach_tree [--branches=3] [--pages=32] [--leaf-us=2000]
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "workload.h"

static char* area;
static long pages, leaf_ns;
static struct Shared {
  atomic_int stop;
  atomic_long forks, bad_endings;
}* shared;

static void TellLife(const char* role, int64_t born_ns, long copies) {
  dprintf(STDOUT_FILENO,
          "{\"pid\":%d,\"parent\":%d,\"role\":\"%s\",\"born_ns\":%lld,\"ended_ns\":%lld,\"planted_copies\":%ld}\n", getpid(),
          getppid(), role, (long long)born_ns, (long long)BootNanoseconds(), copies);
}

static pid_t CountedFork(void) {
  atomic_fetch_add(&shared->forks, 1);
  return Fork();
}

static void RunLeaf(void) {
  int64_t born_ns = BootNanoseconds();
  WritePages(area, 0, pages);
  SleepNanoseconds(leaf_ns);
  TellLife("leaf", born_ns, pages);
  _exit(0);
}

// Forks leaves until the tree is stopped, then reaps everything else it forked.
static void ForkLeaves(const char* role) {
  int64_t born_ns = BootNanoseconds();
  int status;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the tree must not outlive a killed root
  while (!atomic_load(&shared->stop)) {
    pid_t leaf = CountedFork();
    if (!leaf) RunLeaf();
    if (Reap(leaf)) atomic_fetch_add(&shared->bad_endings, 1);
  }
  while (wait(&status) > 0)
    if (status) atomic_fetch_add(&shared->bad_endings, 1);
  TellLife(role, born_ns, 0);
  _exit(0);
}

static void RunBranch(void) {
  if (!CountedFork()) ForkLeaves("twig");
  ForkLeaves("branch");
}

int main(int argc, char** argv) {
  long branches = Option(argc, argv, "--branches", 3);
  int64_t born_ns = BootNanoseconds();
  char c;
  pages = Option(argc, argv, "--pages", 32);
  leaf_ns = Option(argc, argv, "--leaf-us", 2000) * 1000;
  area = MapWritten(pages);
  shared = MapShared(sizeof(*shared));
  for (long i = 0; i < branches; ++i)
    if (!CountedFork()) RunBranch();
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"ready\"}\n", getpid());
  if (read(STDIN_FILENO, &c, 1) < 0) perror("stdin");
  atomic_store(&shared->stop, 1);
  Reap(-1);
  TellLife("root", born_ns, 0);
  dprintf(STDOUT_FILENO, "{\"pid\":%d,\"role\":\"tree\",\"forks\":%ld,\"bad_endings\":%ld}\n", getpid(), shared->forks,
          shared->bad_endings);
  return 0;
}
