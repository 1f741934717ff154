// A look at threads says which processes it could not look at.
#include "recorder/hang_look.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "fixture_tree.h"

namespace cowprof {
namespace {

void WriteProcess(const FixtureTree& tree, pid_t pid, bool shows_calls) {
  const std::string folder = absl::StrCat("/", pid, "/"), task = absl::StrCat(folder, "task/", pid, "/");
  const std::string stat = absl::StrCat(pid, " (python3) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 500 8388608 0\n");
  tree.Write(folder + "stat", stat);
  tree.Write(task + "stat", stat);
  tree.Write(task + "status", "voluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t1\n");
  if (shows_calls) tree.Write(task + "syscall", "7 0x1 0x1 0xffffffff 0x0 0x0 0x0 0x7ffc00 0x7fc9\n");
}

TEST_CASE("hang look: a process whose system calls are not shown is named, one that has ended is not") {
  FixtureTree tree;
  WriteProcess(tree, 7, true);
  WriteProcess(tree, 8, false);
  tree.Write("/9/stat", "9 (python3) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0\n");
  const ThreadsLook look = LookAtThreads(ProcFs(tree.root()), {7, 8, 9, 10});
  REQUIRE(look.processes.size() == 1);
  CHECK(look.processes.contains(7));
  REQUIRE(look.not_looked_at.size() == 1);
  CHECK(look.not_looked_at.begin()->first == "this kernel has no /proc/PID/task/TID/syscall");
  CHECK(look.not_looked_at.begin()->second == std::vector<pid_t>{8});
  CHECK(look.not_permitted.empty());
}

}  // namespace
}  // namespace cowprof
