#include "watch/process_scan.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fixture_tree.h"

using namespace cowprof;

namespace {

constexpr pid_t kWatch = 21;

struct Host {
  FixtureTree tree;
  int dropped = 0;

  void Add(pid_t pid, pid_t parent, int start_ticks, const std::string& command) const {
    const std::string folder = absl::StrCat("/", pid);
    tree.Write(folder + "/stat", absl::StrCat(pid, " (x) S ", parent, " 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 ",
                                              start_ticks, " 8192 1 2 3\n"));
    tree.Write(folder + "/cmdline", command);
    tree.Link(folder + "/exe", "/usr/bin/program");
  }
  // As if the kernel had reclaimed the inode of its folder.
  void AddAgain(pid_t pid, pid_t parent, int start_ticks, const std::string& command) {
    const std::string folder = absl::StrCat(tree.root(), "/", pid);
    std::filesystem::rename(folder, absl::StrCat(tree.root(), "/old-", pid, "-", ++dropped));
    Add(pid, parent, start_ticks, command);
  }
  ProcessScan Scan(const std::string& match, const absl::flat_hash_set<pid_t>& avoid = {}) const {
    ScanSettings settings = {.match = CommandPattern::Compile(match).value(), .self = kWatch, .avoid = avoid};
    return ProcessScan(
        std::move(settings), [](pid_t) {}, ProcFs(tree.root()));
  }
};

std::vector<pid_t> PidsOf(const std::vector<Root>& roots) {
  std::vector<pid_t> pids;
  for (const Root& root : roots) pids.push_back(root.id.pid);
  return pids;
}

}  // namespace

TEST_CASE("process scan: --match finds neither what started watch nor others that name its command") {
  Host host;
  host.Add(1, 0, 1, "init");
  host.Add(15, 1, 50, "bash train.py.sh");
  host.Add(20, 15, 100, "sudo /usr/bin/cowprof watch --match train.py");
  host.Add(kWatch, 20, 110, "/usr/bin/cowprof watch --match train.py");
  host.Add(30, 1, 120, "tmux new sudo cowprof watch --match train.py");
  host.Add(40, 15, 130, "/srv/train.py");
  ProcessScan scan = host.Scan("train\\.py");
  CHECK(scan.Scan(absl::ZeroDuration()).empty());  // not looked at before the next scan
  CHECK(PidsOf(scan.Scan(absl::Seconds(1))) == std::vector<pid_t>{40});

  SECTION("a process that took the pid of one of them is another") {
    std::filesystem::remove_all(host.tree.root() + "/15/exe");
    host.Add(15, 1, 900, "/srv/train.py --lr 1");
    scan.Scan(absl::Seconds(60));
    CHECK(PidsOf(scan.Scan(absl::Seconds(61))) == std::vector<pid_t>{40, 15});
  }
}

TEST_CASE("process scan: a living process whose folder has a new inode stays the same one") {
  Host host;
  host.Add(1, 0, 1, "init");
  host.Add(40, 1, 130, "/srv/train.py");
  ProcessScan scan = host.Scan("train\\.py");
  scan.Scan(absl::ZeroDuration());
  CHECK(PidsOf(scan.Scan(absl::Seconds(1))) == std::vector<pid_t>{40});
  host.AddAgain(40, 1, 130, "/srv/train.py");
  CHECK(PidsOf(scan.Scan(absl::Seconds(2))) == std::vector<pid_t>{40});
  host.AddAgain(40, 1, 900, "/srv/train.py");  // another one
  CHECK(scan.Scan(absl::Seconds(3)).empty());
  const std::vector<Root> roots = scan.Scan(absl::Seconds(4));
  REQUIRE(PidsOf(roots) == std::vector<pid_t>{40});
  CHECK(roots[0].id.start_ticks() == 900);
}

TEST_CASE("process scan: what is to be avoided is so while it lives, whatever its inode") {
  Host host;
  host.Add(1, 0, 1, "init");
  host.Add(40, 1, 130, "/srv/train.py");
  ProcessScan scan = host.Scan("train\\.py", {40});
  scan.Scan(absl::ZeroDuration());
  host.AddAgain(40, 1, 130, "/srv/train.py");
  for (int t = 1; t < 5; ++t) CHECK(scan.Scan(absl::Seconds(t)).empty());
  host.AddAgain(40, 1, 900, "/srv/train.py");
  scan.Scan(absl::Seconds(5));
  CHECK(PidsOf(scan.Scan(absl::Seconds(6))) == std::vector<pid_t>{40});
}
