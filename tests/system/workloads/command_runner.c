// A large parent that runs commands. Each child waits between its vfork, or fork, and its exec, so that samples meet it
// there.
//   command_runner [--pages=50000] [--commands=60] [--fork] [--wait]
#include "workload.h"

int main(int argc, char** argv) {
  const long commands = Option(argc, argv, "--commands", 60), hold_ns = 30000000, gap_ns = 10000000;
  const int forks = Flag(argc, argv, "--fork");
  struct Truth truth = {.role = "root"};
  MapWritten(Option(argc, argv, "--pages", 50000));
  AwaitStart(argc, argv);
  for (long i = 0; i < commands; ++i) {
    pid_t pid = forks ? fork() : vfork();
    if (!pid) {
      SleepNanoseconds(hold_ns);
      execl("/bin/true", "true", (char*)NULL);
      _exit(99);
    }
    Check(pid > 0, "fork");
    Reap(pid);
    SleepNanoseconds(gap_ns);
  }
  Tell(&truth);
  return 0;
}
