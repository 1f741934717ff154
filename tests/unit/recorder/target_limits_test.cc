// What TargetLimits adds to the rows of Limits.
#include "recorder/target_limits.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "fixture_tree.h"

namespace cowprof {

TEST_CASE("a limit that is gone is told once, without a limit") {
  FixtureTree tree;
  tree.Write("/proc/self/mountinfo", "31 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
  const auto cgroup = [&](const std::string& name, const char* limit) {
    tree.Write("/cg/" + name + "/memory.max", limit);
    tree.Write("/cg/" + name + "/memory.current", "700\n");
    tree.Write("/cg/" + name + "/memory.stat", "inactive_file 0\n");
  };
  const auto is_in = [&](const std::string& name) { tree.Write("/proc/12/cgroup", "0::/" + name + "\n"); };
  cgroup("a", "1000\n");
  cgroup("b", "2000\n");
  TargetLimits limits(Limits(ProcFs(tree.root() + "/proc"), tree.root()));
  const auto read = [&](bool exiting = false) { return limits.Read(12, exiting, {}); };
  using Rows = std::vector<LimitSample>;
  const LimitSample a{LimitKind::kCgroupV2, "/a", 1000, 700}, b{LimitKind::kCgroupV2, "/b", 2000, 700};
  const LimitSample gone{LimitKind::kCgroupV2, "/a", std::nullopt, 700};
  is_in("a");
  CHECK(read() == Rows{a});
  CHECK(read() == Rows{a});
  is_in("b");
  CHECK(read() == Rows{b, gone});
  CHECK(read() == Rows{b});
  cgroup("b", "max\n");
  CHECK(read() == Rows{{LimitKind::kCgroupV2, "/b", std::nullopt, 700}});
  is_in("a");
  CHECK(read() == Rows{a});  // the other one had none any more
  // Of a target that is exiting, not all can be read.
  tree.Write("/proc/12/cgroup", "");
  CHECK(read(/*exiting=*/true).empty());
}

TEST_CASE("a limit that can't be read is not said to be lifted") {
  FixtureTree tree;
  using Rows = std::vector<LimitSample>;
  TargetLimits limits(Limits(ProcFs(tree.root() + "/proc"), tree.root()));
  const auto read = [&] { return limits.Read(12, /*exiting=*/false, {.address_space = 13}); };
  const auto lose = [&](const std::string& path) { std::filesystem::remove(tree.root() + path); };
  SECTION("a cgroup above the target's own") {
    const LimitSample own{LimitKind::kCgroupV2, "/job/a", std::nullopt, 700},
        job{LimitKind::kCgroupV2, "/job", 1000, 700}, lifted{LimitKind::kCgroupV2, "/job", std::nullopt, 700};
    tree.Write("/proc/self/mountinfo", "31 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
    tree.Write("/proc/12/cgroup", "0::/job/a\n");
    for (const char* folder : {"/cg/job", "/cg/job/a"}) {
      tree.Write(std::string(folder) + "/memory.max", "max\n");
      tree.Write(std::string(folder) + "/memory.current", "700\n");
      tree.Write(std::string(folder) + "/memory.stat", "inactive_file 0\n");
    }
    tree.Write("/cg/job/memory.max", "1000\n");
    CHECK(read() == Rows{own, job});
    lose("/cg/job/memory.max");
    CHECK(read() == Rows{own});
    lose("/proc/12/cgroup");
    CHECK(read().empty());
    CHECK(read().empty());
    tree.Write("/proc/12/cgroup", "0::/job/a\n");
    tree.Write("/cg/job/memory.max", "max\n");
    CHECK(read() == Rows{own, lifted});
    CHECK(read() == Rows{own});
  }
  SECTION("the address space, of the target and what is below it") {
    const auto rlimits = [](const std::string& space) {
      return "Max address space   " + space + "   unlimited  bytes\n";
    };
    tree.Write("/proc/12/stat", "12 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 8192 1 2 3\n");
    tree.Write("/proc/12/limits", rlimits("65536"));
    tree.Write("/proc/13/limits", rlimits("unlimited"));
    CHECK(read() == Rows{{LimitKind::kAddressSpace, "RLIMIT_AS", 65536, 8192}});
    tree.Write("/proc/12/limits", "");
    CHECK(read().empty());
    tree.Write("/proc/12/limits", rlimits("unlimited"));
    lose("/proc/13/limits");
    CHECK(read().empty());
    tree.Write("/proc/13/limits", rlimits("unlimited"));
    CHECK(read() == Rows{{LimitKind::kAddressSpace, "RLIMIT_AS", std::nullopt, 8192}});
    CHECK(read().empty());
  }
  SECTION("what may be committed") {
    const LimitSample memory{LimitKind::kHost, "MemTotal+SwapTotal", 100 * 1024, 70 * 1024};
    tree.Write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 30 kB\nCommitLimit: 50 kB\nCommitted_AS: 20 kB\n");
    tree.Write("/proc/sys/vm/overcommit_memory", "2\n");
    CHECK(read() == Rows{memory, {LimitKind::kCommit, "CommitLimit", 50 * 1024, 20 * 1024}});
    lose("/proc/sys/vm/overcommit_memory");
    CHECK(read() == Rows{memory});
    tree.Write("/proc/sys/vm/overcommit_memory", "0\n");
    CHECK(read() == Rows{memory, {LimitKind::kCommit, "CommitLimit", std::nullopt, 20 * 1024}});
    CHECK(read() == Rows{memory});
  }
}

}  // namespace cowprof
