// What TargetLimits adds to the rows of Limits.
#include "recorder/target_limits.h"

#include <catch2/catch.hpp>
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

}  // namespace cowprof
