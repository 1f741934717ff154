// The rows of Limits::Read() for hosts built as folders (proc/ and the cgroup mounts below one root), also broken ones,
// and for this process on this machine.
#include "source/limits.h"

#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fixture_tree.h"
#include "posix/fd.h"
#include "source/cgroup.h"

namespace cowprof {
namespace {

using Rows = std::vector<LimitSample>;

// Through the link "root" of the process.
const std::string kShmOfProcess = std::string("/proc/12/root") + "/dev/shm";
constexpr char kV1Unlimited[] = "9223372036854771712\n";
constexpr char kMountV1[] = "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n";
constexpr char kMountV2[] = "31 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n";

// A host with process 12. Only what a test writes exists.
struct Host {
  FixtureTree tree;

  void Process(const std::string& cgroup, const std::string& mountinfo) const {
    tree.Write("/proc/12/cgroup", cgroup);
    tree.Write("/proc/self/mountinfo", mountinfo);
  }
  void V1(const std::string& directory, const std::string& limit, uint64_t usage, uint64_t reclaimable) const {
    tree.Write(directory + "/memory.limit_in_bytes", limit);
    tree.Write(directory + "/memory.usage_in_bytes", absl::StrCat(usage, "\n"));
    // The figure without total_ is that of this level alone and must not be used.
    tree.Write(directory + "/memory.stat",
               absl::StrCat("cache 7\ninactive_file 3\nactive_file 3\ntotal_cache 8\ntotal_inactive_file ",
                            reclaimable - reclaimable / 4, "\ntotal_active_file ", reclaimable / 4, "\n"));
  }
  void V2(const std::string& directory, const std::string& limit, uint64_t usage, uint64_t reclaimable) const {
    tree.Write(directory + "/memory.max", limit);
    tree.Write(directory + "/memory.current", absl::StrCat(usage, "\n"));
    tree.Write(directory + "/memory.stat",
               absl::StrCat("anon 5\nworkingset_inactive_file 4\ninactive_file ", reclaimable - 2 * (reclaimable / 4),
                            "\nactive_file ", reclaimable / 4, "\nslab_reclaimable ", reclaimable / 4, "\n"));
  }
  Rows Read() const { return Limits(ProcFs(tree.root() + "/proc"), tree.root()).Read(12); }
};

const LimitSample* Find(const Rows& rows, LimitKind kind) {
  for (const LimitSample& row : rows) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a host that shows nothing has no rows") {
  Host host;
  CHECK(host.Read().empty());
  host.Process("", "");
  CHECK(host.Read().empty());
}

TEST_CASE("v1: a limited cgroup; reclaimable memory does not count as used") {
  Host host;
  host.Process("4:memory:/job\n", kMountV1);
  host.V1("/cg/memory/job", "1000\n", 700, 200);
  host.V1("/cg/memory", kV1Unlimited, 5000, 0);
  CHECK(host.Read() == Rows{{LimitKind::kCgroupV1, "/job", 1000, 500}});
}

TEST_CASE("v2: a limited cgroup; the root has no files") {
  Host host;
  host.Process("0::/job\n", kMountV2);
  host.V2("/cg/job", "1000\n", 700, 200);
  CHECK(host.Read() == Rows{{LimitKind::kCgroupV2, "/job", 1000, 500}});
}

TEST_CASE("events of a limit: how often it was hit, how many processes were killed") {
  Host host;
  SECTION("v1") {
    host.Process("4:memory:/job\n", kMountV1);
    host.V1("/cg/memory/job", "1000\n", 700, 200);
    host.tree.Write("/cg/memory/job/memory.failcnt", "41\n");
    host.tree.Write("/cg/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    CHECK(host.Read() == Rows{{LimitKind::kCgroupV1, "/job", 1000, 500, 41, 2}});
  }
  SECTION("v2") {
    host.Process("0::/job\n", kMountV2);
    host.V2("/cg/job", "1000\n", 700, 200);
    host.tree.Write("/cg/job/memory.events", "low 1\nhigh 9\nmax 41\noom 3\noom_kill 2\noom_group_kill 7\n");
    CHECK(host.Read() == Rows{{LimitKind::kCgroupV2, "/job", 1000, 500, 41, 2, 3}});
    host.tree.Write("/cg/job/memory.events", "max x\noom_kill\n");
    CHECK(host.Read() == Rows{{LimitKind::kCgroupV2, "/job", 1000, 500}});
  }
}

TEST_CASE("hybrid: the memory controller of v1, whatever v2 has") {
  Host host;
  host.Process("4:memory:/job\n0::/job\n", absl::StrCat(kMountV1, kMountV2));
  host.V1("/cg/memory/job", "1000\n", 700, 200);
  host.V2("/cg/job", "9\n", 9, 0);
  CHECK(host.Read() == Rows{{LimitKind::kCgroupV1, "/job", 1000, 500}});
}

TEST_CASE("nested: every limited level, innermost first") {
  Host host;
  host.Process("0::/a/b/c\n", kMountV2);
  host.V2("/cg/a/b/c", "1000\n", 100, 0);
  host.V2("/cg/a/b", "max\n", 200, 0);
  host.V2("/cg/a", "3000\n", 300, 50);
  CHECK(host.Read() == Rows{{LimitKind::kCgroupV2, "/a/b/c", 1000, 100}, {LimitKind::kCgroupV2, "/a", 3000, 250}});
}

TEST_CASE("only the grandparent is limited: the process's own level is a row without a limit") {
  Host host;
  host.Process("4:memory:/a/b/c\n", kMountV1);
  host.V1("/cg/memory/a/b/c", kV1Unlimited, 100, 0);
  host.V1("/cg/memory/a/b", kV1Unlimited, 200, 0);
  host.V1("/cg/memory/a", "3000\n", 300, 0);
  host.V1("/cg/memory", kV1Unlimited, 400, 0);
  const Rows expected = {{LimitKind::kCgroupV1, "/a/b/c", std::nullopt, 100}, {LimitKind::kCgroupV1, "/a", 3000, 300}};
  SECTION("no memory.use_hierarchy, as in a kernel that dropped it") { CHECK(host.Read() == expected); }
  SECTION("the grandparent counts its children") {
    host.tree.Write("/cg/memory/a/memory.use_hierarchy", "1\n");
    CHECK(host.Read() == expected);
  }
  SECTION("the grandparent counts its own processes only") {
    host.tree.Write("/cg/memory/a/memory.use_hierarchy", "0\n");
    CHECK(host.Read() == Rows{expected[0]});
  }
}

TEST_CASE("use_hierarchy is 0 on the process's own level: its limit applies all the same") {
  Host host;
  host.Process("4:memory:/a\n", kMountV1);
  host.V1("/cg/memory/a", "3000\n", 300, 0);
  host.tree.Write("/cg/memory/a/memory.use_hierarchy", "0\n");
  CHECK(host.Read() == Rows{{LimitKind::kCgroupV1, "/a", 3000, 300}});
}

TEST_CASE("unlimited everywhere: one row without a limit") {
  Host host;
  host.Process("0::/a/b\n", kMountV2);
  host.V2("/cg/a/b", "max\n", 100, 30);
  host.V2("/cg/a", "max\n", 200, 0);
  CHECK(host.Read() == Rows{{LimitKind::kCgroupV2, "/a/b", std::nullopt, 70}});
}

TEST_CASE("the process's own level has no memory controller: charged to the next one up") {
  Host host;
  host.Process("0::/a/b\n", kMountV2);
  host.tree.Write("/cg/a/b/cgroup.procs", "12\n");
  host.V2("/cg/a", "max\n", 200, 0);
  CHECK(host.Read() == Rows{{LimitKind::kCgroupV2, "/a", std::nullopt, 200}});
}

TEST_CASE("no memory controller at all") {
  Host host;
  host.Process("1:cpu:/a\n0::/a\n", kMountV2);
  host.tree.Write("/cg/a/cgroup.procs", "12\n");
  CHECK(host.Read().empty());
}

TEST_CASE("removed meanwhile: no row, and the level above still applies") {
  Host host;
  host.Process("0::/a/gone (deleted)\n", kMountV2);
  host.V2("/cg/a", "3000\n", 300, 0);
  CHECK(host.Read() == Rows{{LimitKind::kCgroupV2, "/a", 3000, 300}});
}

TEST_CASE("one file is missing or garbage: no row for that level") {
  Host host;
  host.Process("0::/job\n", kMountV2);
  host.V2("/cg/job", "1000\n", 700, 200);
  REQUIRE(host.Read().size() == 1);
  const std::string file = GENERATE("memory.max", "memory.current", "memory.stat");
  const std::string path = "/cg/job/" + file;
  INFO(file);
  SECTION("missing") {
    std::filesystem::remove(host.tree.root() + path);
    CHECK(host.Read().empty());
  }
  SECTION("garbage") {
    const std::string text =
        GENERATE(as<std::string>(), "", "\n", "-5\n", "inactive_file -5\n", "inactive_file\n",
                 "inactive_file 99999999999999999999\n", std::string(64, '\0'), std::string(1 << 20, 'x'));
    host.tree.Write(path, text);
    CHECK(host.Read().empty());
  }
}

TEST_CASE("Look() returns current figures of cgroups that were current within the last second") {
  Host host;
  host.Process("0::/job\n", kMountV2);
  host.V2("/cg/job", "1000\n", 700, 200);
  host.V2("/cg/other", "3000\n", 400, 200);
  Limits limits(ProcFs(host.tree.root() + "/proc"), host.tree.root());
  const auto look = [&](double t) { return limits.Look(12, {}, absl::Seconds(t)); };
  CHECK(look(5) == Rows{{LimitKind::kCgroupV2, "/job", 1000, 500}});
  host.V2("/cg/job", "1000\n", 800, 200);
  CHECK(look(5.1) == Rows{{LimitKind::kCgroupV2, "/job", 1000, 600}});
  host.Process("0::/other\n", kMountV2);
  CHECK(look(5.9) == Rows{{LimitKind::kCgroupV2, "/job", 1000, 600}});
  CHECK(look(6) == Rows{{LimitKind::kCgroupV2, "/other", 3000, 200}});
  host.Process("", "");
  CHECK(look(7).empty());
}

TEST_CASE("of a process that is exiting, the cgroups are those that it was in") {
  Host host;
  host.Process("6:memory:/job\n", kMountV1);
  host.V1("/cg/memory/job", "1000\n", 700, 200);
  host.V1("/cg/memory", kV1Unlimited, 5000, 0);
  Limits limits(ProcFs(host.tree.root() + "/proc"), host.tree.root());
  const Rows before = limits.Read(12);
  REQUIRE(before.size() == 1);
  host.Process("6:memory:/\n", kMountV1);
  host.tree.Write("/proc/12/stat", "12 (x) D 1 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 5 8192 1 2 3\n");
  CHECK(limits.Read(12) == before);
  CHECK(limits.Look(12, {}, absl::Seconds(5)) == before);
  CHECK(limits.ReadLastCgroups() == before);
}

TEST_CASE("a limit of 0, and a part larger than the whole") {
  Host host;
  host.Process("0::/job\n", kMountV2);
  host.V2("/cg/job", "0\n", 100, 150);
  const Rows rows = host.Read();
  REQUIRE(rows == Rows{{LimitKind::kCgroupV2, "/job", 0, 0}});
  CHECK_FALSE(rows[0].ratio());
}

TEST_CASE("huge numbers") {
  Host host;
  host.Process("0::/job\n", kMountV2);
  host.V2("/cg/job", "99999999999999999999999\n", UINT64_MAX, 1);
  CHECK(host.Read() == Rows{{LimitKind::kCgroupV2, "/job", std::nullopt, UINT64_MAX - 1}});
}

TEST_CASE("a container's mount shows its subtree; the name is the hierarchy's") {
  Host host;
  host.Process("4:memory:/docker/abc/job\n", "35 31 0:32 /docker/abc /cg/memory ro - cgroup cgroup rw,memory\n");
  host.V1("/cg/memory/job", kV1Unlimited, 10, 0);
  host.V1("/cg/memory", "500\n", 20, 0);
  CHECK(host.Read() == Rows{{LimitKind::kCgroupV1, "/docker/abc/job", std::nullopt, 10},
                            {LimitKind::kCgroupV1, "/docker/abc", 500, 20}});
}

TEST_CASE("a process outside our cgroup namespace: no folder outside the mount is read") {
  Host host;
  host.Process("0::/../job\n", "31 23 0:26 / /cg/mine rw - cgroup2 cgroup2 rw\n");
  host.V2("/cg/mine", "1\n", 1, 0);
  host.V2("/cg/job", "1000\n", 700, 200);
  CHECK(host.Read().empty());
}

TEST_CASE("what may be committed is a limit where the host accounts strictly") {
  Host host;
  const LimitSample memory{LimitKind::kHost, "MemTotal+SwapTotal", 100 * 1024, 70 * 1024};
  host.tree.Write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 30 kB\nCommitLimit: 50 kB\nCommitted_AS: 20 kB\n");
  CHECK(host.Read() == Rows{memory});
  for (const char* mode : {"0\n", "1\n", "", "x"}) {
    host.tree.Write("/proc/sys/vm/overcommit_memory", mode);
    CHECK(host.Read() == Rows{memory});
  }
  host.tree.Write("/proc/sys/vm/overcommit_memory", "2\n");
  const LimitSample committed{LimitKind::kCommit, "CommitLimit", 50 * 1024, 20 * 1024};
  CHECK(host.Read() == Rows{memory, committed});
  Limits limits(ProcFs(host.tree.root() + "/proc"), host.tree.root());
  CHECK(limits.Look(12, {}, absl::Seconds(5)) == Rows{memory});  // the mode as of the last Read()
  CHECK(limits.Read(12) == Rows{memory, committed});
  CHECK(limits.Look(12, {}, absl::Seconds(5)) == Rows{memory, committed});
  host.tree.Write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 30 kB\nCommitLimit: 50 kB\n");
  CHECK(host.Read() == Rows{memory});
}

TEST_CASE("mappings are a limit once a tenth of it was used") {
  Host host;
  const Limits limits(ProcFs(host.tree.root() + "/proc"), host.tree.root());
  CHECK(limits.Read(12, {.mappings = 60000}).empty());
  host.tree.Write("/proc/sys/vm/max_map_count", "65530\n");
  CHECK(limits.Read(12, {.mappings = 6552}).empty());
  CHECK(limits.Read(12, {.mappings = 6553}) == Rows{{LimitKind::kMappings, "vm.max_map_count", 65530, 6553}});
  const LimitSample few{LimitKind::kMappings, "vm.max_map_count", 65530, 300};
  CHECK(limits.Read(12, {.mappings = 300}) == Rows{few});
  CHECK(Limits(limits).Look(12, {.mappings = 300}, absl::Seconds(5)) == Rows{few});
  CHECK(limits.Read(12).empty());  // nobody can tell
  host.tree.Write("/proc/sys/vm/max_map_count", "all");
  CHECK(limits.Read(12, {.mappings = 60000}).empty());
}

TEST_CASE("host memory with swap") {
  Host host;
  const std::string total = "MemTotal: 100 kB\n", available = "MemAvailable: 30 kB\n";
  const std::string swap = "SwapTotal: 50 kB\nSwapFree: 20 kB\n";
  host.tree.Write("/proc/meminfo", total + available + swap);
  CHECK(host.Read() == Rows{{LimitKind::kHost, "MemTotal+SwapTotal", 150 * 1024, 100 * 1024}});
  host.tree.Write("/proc/meminfo", total + available);
  CHECK(host.Read() == Rows{{LimitKind::kHost, "MemTotal+SwapTotal", 100 * 1024, 70 * 1024}});
  host.tree.Write("/proc/meminfo", total + "MemAvailable: 900 kB\n");
  CHECK(host.Read() == Rows{{LimitKind::kHost, "MemTotal+SwapTotal", 100 * 1024, 0}});
  host.tree.Write("/proc/meminfo", total + swap);
  CHECK(host.Read().empty());
  host.tree.Write("/proc/meminfo", available + swap);
  CHECK(host.Read().empty());
}

TEST_CASE("host memory: what the cache of ZFS gives back is not used") {
  Host host;
  host.tree.Write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 30 kB\n");
  const auto used = [&](const std::string& arcstats) {
    host.tree.Write("/proc/spl/kstat/zfs/arcstats",
                    "9 1 0x01 147 39984 1 2\nname  type data\nhits  4    7\n" + arcstats);
    return Find(host.Read(), LimitKind::kHost)->used;
  };
  CHECK(
      used("c_min                           4    4096\nc_max 4 81920\nsize                            4    45056\n") ==
      30 * 1024);
  CHECK(used("c_min 4 4096\nsize 4 2048\n") == 70 * 1024);
  CHECK(used("c_min 4 4096\nsize 4 18446744073709551615\n") == 0);
  CHECK(used("c_min\nsize 4 x\n") == 70 * 1024);
}

TEST_CASE("host memory: swap on zram is not memory of its own") {
  Host host;
  host.tree.Write("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 30 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n");
  const std::string head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
  const auto with = [&](const std::string& swaps) {
    host.tree.Write("/proc/swaps", head + swaps);
    return host.Read().at(0);
  };
  const auto row = [](uint64_t limit, uint64_t used) {
    return LimitSample{LimitKind::kHost, "MemTotal+SwapTotal", limit * 1024, used * 1024};
  };
  CHECK(with("/dev/sda2                               partition\t50\t\t30\t\t-2\n") == row(150, 100));
  CHECK(with("/dev/zram0                              partition\t50\t\t30\t\t100\n") == row(100, 70));
  CHECK(with("/dev/zram0 partition 40 25 100\n/swapfile file 10 5 -2\n") == row(110, 75));
  CHECK(with("/dev/zram0 partition 20 10 100\n/zram1 partition 30 20 100\n") == row(100, 70));
  // Pages were swapped out between the two reads.
  CHECK(with("/dev/zram0 partition 50 35 100\n") == row(100, 70));
  CHECK(with("/dev/zram0 partition 40 30 100\n/swapfile file 10 5 -2\n") == row(110, 70));
  // Not zram, or not readable.
  for (const char* swaps : {"/home/zram0 file 50 30 -2\n", "/dev/zramx partition 50 30 -2\n",
                            "/dev/zram0 partition 50 60 1\n", "/dev/zram0 partition\n", ""}) {
    CHECK(with(swaps) == row(150, 100));
  }
}

TEST_CASE("whether /dev/shm is that of process 1") {
  Host host;
  const auto with = [&](const std::string& mounts) {
    host.tree.Write("/proc/1/mountinfo", mounts);
    return Limits(ProcFs(host.tree.root() + "/proc"), host.tree.root()).SharesShmWithInit(12);
  };
  const auto mount = [](uint64_t device, const char* at) {
    return absl::StrCat("25 30 ", major(device), ":", minor(device), " / ", at, " rw,nosuid - tmpfs tmpfs rw\n");
  };
  CHECK_FALSE(with(mount(0, "/dev/shm")));  // the process has none
  host.tree.Write(kShmOfProcess + "/x", "");
  const uint64_t device = Limits(ProcFs(host.tree.root() + "/proc")).ShmDevice(12);
  REQUIRE(device != 0);
  CHECK(with(mount(1, "/") + mount(device, "/dev/shm")));
  CHECK_FALSE(with(mount(device, "/dev/shm") + mount(device + 1, "/dev/shm")));
  CHECK_FALSE(with(mount(device, "/dev/shm2") + mount(device + 1, "/dev/shm")));
  CHECK_FALSE(with(""));
}

TEST_CASE("resource limits of the process") {
  Host host;
  host.tree.Write("/proc/12/stat", "12 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 8192 1 2 3\n");
  for (const char* fd : {"0", "1", "2"}) host.tree.Write(absl::StrCat("/proc/12/fd/", fd), "");
  const auto limits = [](const char* space, const char* files) {
    return absl::StrCat("Limit   Soft Limit  Hard Limit  Units\nMax open files   ", files,
                        "   9999  files\nMax address space   ", space, "   unlimited  bytes\n");
  };
  host.tree.Write("/proc/12/limits", limits("65536", "1024"));
  CHECK(host.Read() == Rows{{LimitKind::kAddressSpace, "RLIMIT_AS", 65536, 8192},
                            {LimitKind::kDescriptors, "RLIMIT_NOFILE", 1024, 3}});
  host.tree.Write("/proc/12/limits", limits("unlimited", "unlimited"));
  CHECK(host.Read() == Rows{{LimitKind::kDescriptors, "RLIMIT_NOFILE", std::nullopt, 3}});
  std::filesystem::remove(host.tree.root() + "/proc/12/stat");
  std::filesystem::remove_all(host.tree.root() + "/proc/12/fd");
  host.tree.Write("/proc/12/limits", limits("65536", "1024"));
  CHECK(host.Read().empty());
}

TEST_CASE("limits of one process are those of the one that is nearer to its own") {
  Host host;
  const auto process = [&](int pid, const char* space, uint64_t virtual_bytes, const char* files, int open) {
    const std::string folder = absl::StrCat("/proc/", pid);
    host.tree.Write(folder + "/stat",
                    absl::StrCat(pid, " (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 ", virtual_bytes, " 1 2 3\n"));
    host.tree.Write(folder + "/limits", absl::StrCat("Limit   Soft Limit  Hard Limit  Units\nMax open files   ", files,
                                                     "   9999  files\nMax address space   ", space, "   9 bytes\n"));
    for (int fd = 0; fd < open; ++fd) host.tree.Write(absl::StrCat(folder, "/fd/", fd), "");
  };
  process(12, "65536", 8192, "100", 4);
  process(13, "65536", 32768, "100", 50);
  const ProcFs proc(host.tree.root() + "/proc");
  const auto read = [&](const Holders& holders) { return Limits(proc, host.tree.root()).Read(12, holders); };
  const LimitSample own_space{LimitKind::kAddressSpace, "RLIMIT_AS", 65536, 8192};
  const LimitSample own_files{LimitKind::kDescriptors, "RLIMIT_NOFILE", 100, 4};
  CHECK(read({}) == Rows{own_space, own_files});
  CHECK(read({.descriptors = 12, .address_space = 12}) == Rows{own_space, own_files});
  CHECK(read({.descriptors = 99, .address_space = 99}) == Rows{own_space, own_files});  // it is gone
  const LimitSample space{LimitKind::kAddressSpace, "RLIMIT_AS", 65536, 32768};
  const LimitSample files{LimitKind::kDescriptors, "RLIMIT_NOFILE", 100, 50};
  CHECK(read({.descriptors = 13, .address_space = 13}) == Rows{space, files});
  CHECK(Limits(proc, host.tree.root()).Look(12, {.descriptors = 13}, absl::Seconds(5)) == Rows{own_space, files});
  // It may have raised its own.
  process(13, "unlimited", 32768, "4096", 50);
  CHECK(read({.descriptors = 13, .address_space = 13}) == Rows{own_space, own_files});
  process(13, "65536", 32768, "unlimited", 50);
  CHECK(read({.descriptors = 13, .address_space = 13}) == Rows{space, own_files});
}

TEST_CASE("shared memory is read through the process's own root") {
  Host host;
  SECTION("a file system with a size limit") {
    host.tree.Link("/proc/12/root", "/");
    struct statvfs expected;
    REQUIRE(statvfs("/dev/shm", &expected) == 0);
    const Rows rows = host.Read();
    REQUIRE(rows.size() == 2);
    CHECK(rows[1].kind == LimitKind::kShmInodes);
    CHECK(rows[1].limit == expected.f_files);
    CHECK(rows[1].used <= rows[1].limit);
    CHECK(rows[0].name == "/dev/shm");
    CHECK(rows[0].kind == LimitKind::kShm);
    CHECK(rows[0].limit == expected.f_blocks * expected.f_frsize);
    CHECK(rows[0].used <= rows[0].limit);
  }
  SECTION("a folder on a disk does not limit memory") {
    struct statfs filesystem;
    const std::string folder = host.tree.root() + kShmOfProcess;
    std::filesystem::create_directories(folder);
    REQUIRE(statfs(folder.c_str(), &filesystem) == 0);
    CHECK(host.Read().size() == (filesystem.f_type == TMPFS_MAGIC ? 2 : 0));
  }
  SECTION("a link of the target does not lead to a folder of the host") {
    host.tree.Link(kShmOfProcess, "/dev/shm");
    CHECK(host.Read().empty());
  }
}

TEST_CASE("live: limits of this process") {
  const Rows rows = Limits().Read(getpid());
  const LimitSample* host = Find(rows, LimitKind::kHost);
  REQUIRE(host != nullptr);
  CHECK(host->limit >= uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE)));
  CHECK(host->used > 0);
  CHECK(host->used < host->limit);

  rlimit files;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  const LimitSample* descriptors = Find(rows, LimitKind::kDescriptors);
  REQUIRE(descriptors != nullptr);
  CHECK(descriptors->limit == files.rlim_cur);
  CHECK(descriptors->used >= 3);
  CHECK(Find(rows, LimitKind::kShm) != nullptr);

  const auto own = ReadSmallFile("/proc/self/cgroup"), mounts = ReadSmallFile("/proc/self/mountinfo");
  REQUIRE(own.ok());
  REQUIRE(mounts.ok());
  for (const MemoryCgroup& cgroup : PlanMemoryCgroups(*own, *mounts)) {
    CHECK(std::filesystem::is_directory(cgroup.directory));
  }
}

TEST_CASE("live: bytes written to shared memory count as used") {
  const auto used = [] { return Find(Limits().Read(getpid()), LimitKind::kShm)->used; };
  std::string name = "/dev/shm/cowprof-test-XXXXXX";
  const Fd file(mkstemp(name.data()));
  REQUIRE(file.ok());
  unlink(name.c_str());
  const uint64_t before = used();
  const std::string text(8 << 20, 'x');
  REQUIRE(write(file.fd(), text.data(), text.size()) == ssize_t(text.size()));
  // Other processes may write and remove files at the same time, but hardly 4 MiB.
  CHECK(used() >= before + (4 << 20));
}

TEST_CASE("live: a process that is gone has only the host's rows") {
  const Rows rows = Limits().Read(0x7ffffffe);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].kind == LimitKind::kHost);
}

}  // namespace cowprof
