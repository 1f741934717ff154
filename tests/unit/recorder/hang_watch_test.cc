// How much one round of glances may look at. What it finds: tests/system/test_hang_recorded.py.
#include "recorder/hang_watch.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "fixture_tree.h"

namespace cowprof {
namespace {

void WriteProcess(const FixtureTree& tree, pid_t pid, int threads, uint64_t flags) {
  const std::string folder = absl::StrCat("/", pid, "/");
  tree.Write(folder + "stat", absl::StrCat(pid, " (python3) S 10 10 10 0 -1 ", flags,
                                           " 0 0 0 0 0 0 0 0 20 0 1 0 100 3133440 383 18446744073709551615 0 0 0"));
  for (int i = 0; i < threads; ++i) tree.Write(absl::StrCat(folder, "task/", pid + i, "/syscall"), "running\n");
}

}  // namespace

TEST_CASE("a round of glances is bounded, and the next one goes on where it ended") {
  constexpr uint64_t kForkNoExec = 0x40;
  const FixtureTree tree;
  Processes processes{ProcFs(tree.root())};
  int parent = 0;
  for (const auto& [pid, threads] :
       {std::pair(10, 1), std::pair(10'000, 2000), std::pair(20'000, 2100), std::pair(30'000, 10)}) {
    WriteProcess(tree, pid, threads, parent == 0 ? 0 : kForkNoExec);
    processes.Add({.id = {pid, 1},
                   .parent = parent == 0 ? ProcessId{} : ProcessId{parent, 1},
                   .origin = parent == 0 ? Origin::kTarget : Origin::kForked,
                   .serial = static_cast<uint32_t>(pid)});
    parent = 10;
  }
  HangWatch watch(ProcFs(tree.root()), [](int) { return nullptr; });
  std::vector<size_t> glances;
  for (int round = 1; round <= 3; ++round) {
    Sample sample = {.t = absl::Seconds(10 * round)};
    watch.Run(processes, &sample);
    glances.push_back(watch.glances());
  }
  CHECK(glances == std::vector<size_t>{2000, 2100, 2010});
}

}  // namespace cowprof
