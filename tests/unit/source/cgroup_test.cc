// Where cgroup.cc finds a process's memory cgroups, on the layouts of hosts and containers, and how it parses their
// files. limits_test.cc uses trees of real files.
#include "source/cgroup.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

using Levels = std::vector<MemoryCgroup>;

// Mount lines as in mountinfo.
constexpr char kV1Memory[] = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:16 - cgroup cgroup rw,memory\n";
constexpr char kV1Cpu[] = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n";
constexpr char kV2[] = "31 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw\n";
constexpr char kV2Unified[] = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
constexpr char kOthers[] =
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n";

std::string MountV1(const std::string& root, const std::string& point) {
  return absl::StrCat("35 31 0:32 ", root, " ", point, " rw - cgroup cgroup rw,memory\n");
}
std::string MountV2(const std::string& root, const std::string& point) {
  return absl::StrCat("31 23 0:26 ", root, " ", point, " rw - cgroup2 cgroup2 rw\n");
}

}  // namespace

TEST_CASE("cgroup v2, nested: every level up to the root, innermost first") {
  CHECK(PlanMemoryCgroups("0::/a.slice/b.scope\n", absl::StrCat(kOthers, kV2)) ==
        Levels{{true, "/sys/fs/cgroup/a.slice/b.scope", "/a.slice/b.scope"},
               {true, "/sys/fs/cgroup/a.slice", "/a.slice"},
               {true, "/sys/fs/cgroup", "/"}});
}

TEST_CASE("cgroup v2 at the root, as in a container with a namespace of its own") {
  CHECK(PlanMemoryCgroups("0::/\n", kV2) == Levels{{true, "/sys/fs/cgroup", "/"}});
}

// Recorded on a test machine: v1, with v2 mounted but without the memory controller.
TEST_CASE("hybrid host: memory is in v1") {
  const std::string own = "9:name=systemd:/\n8:pids:/\n5:devices:/\n4:memory:/api/952a\n3:cpuset:/\n1:cpu:/\n0::/x\n";
  const Levels expected = {{false, "/sys/fs/cgroup/memory/api/952a", "/api/952a"},
                           {false, "/sys/fs/cgroup/memory/api", "/api"},
                           {false, "/sys/fs/cgroup/memory", "/"}};
  CHECK(PlanMemoryCgroups(own, absl::StrCat(kOthers, kV1Cpu, kV1Memory, kV2Unified)) == expected);
  CHECK(PlanMemoryCgroups("0::/x\n" + own, absl::StrCat(kV2Unified, kV1Memory)) == expected);
  // Listed under v1 but mounted nowhere in v1: nothing, rather than the files of v2.
  CHECK(PlanMemoryCgroups(own, absl::StrCat(kV1Cpu, kV2Unified)).empty());
}

TEST_CASE("hybrid host: memory is in v2") {
  CHECK(PlanMemoryCgroups("3:cpu:/y\n1:name=systemd:/z\n0::/x\n", absl::StrCat(kV1Cpu, kV2Unified)) ==
        Levels{{true, "/sys/fs/cgroup/unified/x", "/x"}, {true, "/sys/fs/cgroup/unified", "/"}});
}

TEST_CASE("v1 controllers mounted together") {
  CHECK(PlanMemoryCgroups("2:cpu,memory,pids:/j\n", "9 1 0:3 / /cg rw - cgroup none rw,cpu,memory,pids\n") ==
        Levels{{false, "/cg/j", "/j"}, {false, "/cg", "/"}});
}

TEST_CASE("container whose mount shows its own subtree only") {
  CHECK(
      PlanMemoryCgroups("4:memory:/docker/abc/job\n", MountV1("/docker/abc", "/sys/fs/cgroup/memory")) ==
      Levels{{false, "/sys/fs/cgroup/memory/job", "/docker/abc/job"}, {false, "/sys/fs/cgroup/memory", "/docker/abc"}});
  CHECK(PlanMemoryCgroups("0::/docker/abc\n", MountV2("/docker/abc", "/cg")) == Levels{{true, "/cg", "/docker/abc"}});
}

TEST_CASE("a process outside the mounted subtree has no levels") {
  const auto [own, root] = GENERATE(table<std::string, std::string>({
      {"/docker/abcd", "/docker/abc"},     // a name with the same prefix
      {"/docker", "/docker/abc"},          // above
      {"/system.slice", "/docker/abc"},    // beside
      {"/../..", "/"},                     // outside our cgroup namespace
      {"/../other", "/"},                  //
      {"/a/../../b", "/"},                 //
      {"/", "/../.."},                     // the mount's root is above our namespace's
      {"/docker/abc/../x", "/docker/abc"}  //
  }));
  INFO(own << " under " << root);
  CHECK(PlanMemoryCgroups("0::" + own + "\n", MountV2(root, "/cg")).empty());
  CHECK(PlanMemoryCgroups("7:memory:" + own + "\n", MountV1(root, "/cg")).empty());
}

TEST_CASE("both outside the namespace: the common part is readable") {
  CHECK(PlanMemoryCgroups("0::/../x/y\n", MountV2("/../x", "/cg")) ==
        Levels{{true, "/cg/y", "/../x/y"}, {true, "/cg", "/../x"}});
}

TEST_CASE("of several mounts the one with most levels, among equals the last") {
  const Levels whole = {{true, "/all/a/b", "/a/b"}, {true, "/all/a", "/a"}, {true, "/all", "/"}};
  CHECK(PlanMemoryCgroups("0::/a/b\n", MountV2("/a", "/part") + MountV2("/", "/all")) == whole);
  CHECK(PlanMemoryCgroups("0::/a/b\n", MountV2("/", "/all") + MountV2("/a", "/part")) == whole);
  CHECK(PlanMemoryCgroups("0::/a/b\n", MountV2("/", "/old") + MountV2("/", "/all")) == whole);
}

TEST_CASE("names with escapes, colons and the mark of a removed cgroup") {
  CHECK(PlanMemoryCgroups("0::/x:y z\n", MountV2("/x:y\\040z", "/c\\134g\\011")) ==
        Levels{{true, "/c\\g\t", "/x:y z"}});
  CHECK(PlanMemoryCgroups("0::/gone (deleted)\n", MountV2("/", "/c\\04")) ==
        Levels{{true, "/c\\04/gone (deleted)", "/gone (deleted)"}, {true, "/c\\04", "/"}});
}

TEST_CASE("no memory controller, or unparsable text") {
  const std::string mounts = absl::StrCat(kOthers, kV1Cpu, kV1Memory, kV2);
  const std::string own =
      GENERATE(as<std::string>(), "", "\n\n", "1:cpu:/a\n", "4:memory\n", "4:memory:\n", "4:memory:rel\n", "0:cpu:/a\n",
               "1::/a\n", ":::\n", "4:memoryx:/a\n", std::string(100, '\0'), "0::/" + std::string(1 << 20, 'a'),
               "0::" + std::string(1 << 20, '/'));
  CHECK(PlanMemoryCgroups(own, mounts).empty());
  CHECK_FALSE(PlanMemoryCgroups("4:memory:/a", mounts).empty());
}

TEST_CASE("mount tables that are empty, truncated or something else") {
  const std::string mounts = GENERATE(
      as<std::string>(), "", "\n", kOthers, "31 23 0:26 / /cg rw - cgroup2", "31 23 0:26 / /cg rw - cgroup2 cgroup2",
      "31 23 / - cgroup2 cgroup2 rw", "31 23 0:26 / /cg rw - cgroup2x cgroup2 rw",
      "1 2 0:3 / /cg rw - tmpfs - cgroup2 rw", " - cgroup2 ", std::string(1 << 20, ' '));
  CHECK(PlanMemoryCgroups("0::/a\n", mounts).empty());
  CHECK(PlanMemoryCgroups("0::/a\n", mounts + "\n" + kV2).size() == 2);
}

TEST_CASE("limits as the kernel writes them") {
  CHECK(*ParseMemoryLimit("1073741824\n") == uint64_t{1} << 30);
  CHECK(*ParseMemoryLimit("0\n") == 0);
  CHECK(*ParseMemoryLimit("4611686018427387903\n") == (uint64_t{1} << 62) - 1);
  const std::string none = GENERATE(as<std::string>(), "max\n", "9223372036854771712\n",  // 4 KiB pages
                                    "9223372036854710272\n",                              // 64 KiB pages
                                    "9223372036854775807\n", "4611686018427387904\n", "18446744073709551616\n",
                                    "999999999999999999999999999999\n");
  const auto limit = ParseMemoryLimit(none);
  REQUIRE(limit.ok());
  CHECK_FALSE(limit->has_value());
}

TEST_CASE("invalid limits are refused, not taken as unlimited") {
  const std::string text = GENERATE(as<std::string>(), "", "\n", "-1\n", "maximum\n", "max max\n", "12 34\n", "1e9\n",
                                    "0x10\n", "1G\n", std::string("1\0002", 3), std::string(1 << 20, 'm'));
  CHECK(absl::IsInvalidArgument(ParseMemoryLimit(text).status()));
}

}  // namespace cowprof
