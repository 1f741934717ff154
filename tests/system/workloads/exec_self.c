// A process that execs itself repeatedly and remains one process. The root execs E times, then forks a child that copies N pages
// and execs as well; the new image makes M new pages.
//   exec_self [--pages=20000] [--fresh=10000] [--execs=3] [--wait]
#include "workload.h"

static void Exec(char* stage, long number) {
  char count[32];
  snprintf(count, sizeof(count), "--number=%ld", number);
  char* image[] = {"exec_self", stage, count, NULL};
  execv("/proc/self/exe", image);
  Check(0, "execv");
}

static void RunChild(char* area, long pages, long fresh) {
  struct Truth truth = {.role = "child", .copies = pages};
  WritePages(area, 0, pages);
  truth.pagemap_copies = CountDiverged(getppid(), area, pages);
  Tell(&truth);
  Exec("--image", fresh);
}

static int RunImage(long fresh) {
  struct Truth truth = {.role = "image", .zero_fills = fresh};
  MapWritten(fresh);
  Tell(&truth);
  return 0;
}

int main(int argc, char** argv) {
  long pages = Option(argc, argv, "--pages", 20000), execs = Option(argc, argv, "--execs", 3);
  struct Truth truth = {.role = "root"};
  if (Flag(argc, argv, "--image")) return RunImage(Option(argc, argv, "--number", 0));
  if (Flag(argc, argv, "--again")) execs = Option(argc, argv, "--number", 0);
  AwaitStart(argc, argv);
  if (execs > 0) Exec("--again", execs - 1);
  char* area = MapWritten(pages);
  if (!Fork()) RunChild(area, pages, Option(argc, argv, "--fresh", 10000));
  Reap(-1);
  Tell(&truth);
  return 0;
}
