// Which processes have an address space together.
#include "recorder/processes.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

ProcessId IdOf(pid_t pid) { return {pid, 1}; }

// pid 0: the target has none.
FollowedProcess Forked(pid_t pid, pid_t parent) {
  return {.id = IdOf(pid),
          .parent = parent == 0 ? ProcessId{} : IdOf(parent),
          .origin = parent == 0 ? Origin::kTarget : Origin::kForked,
          .serial = static_cast<uint32_t>(pid)};
}

}  // namespace

TEST_CASE("an address space is shared as long as two that live have it") {
  Processes processes{ProcFs()};
  for (const auto& [pid, parent] : {std::pair(10, 0), std::pair(11, 10), std::pair(12, 11)})
    processes.Add(Forked(pid, parent));
  const auto shares = [&](pid_t pid) { return processes.SharesSpace(*processes.Find(IdOf(pid))); };
  CHECK(shares(10));
  CHECK(shares(12));
  processes.Exec(IdOf(11));
  CHECK_FALSE(shares(11));
  CHECK(shares(12));  // with the target
  processes.End(IdOf(10));
  CHECK_FALSE(shares(12));
  processes.Add(Forked(13, 12));
  CHECK(shares(13));
}

TEST_CASE("after an exec of its owner each of the others has an address space of its own") {
  Processes processes{ProcFs()};
  for (const auto& [pid, parent] : {std::pair(10, 0), std::pair(11, 10), std::pair(12, 10)})
    processes.Add(Forked(pid, parent));
  processes.Exec(IdOf(10));
  for (const pid_t pid : {10, 11, 12}) {
    const LivingProcess& process = *processes.Find(IdOf(pid));
    CHECK(process.space == process.index);
    CHECK_FALSE(processes.SharesSpace(process));
  }
  processes.Exec(IdOf(10));
  CHECK_FALSE(processes.SharesSpace(*processes.Find(IdOf(10))));
}

}  // namespace cowprof
