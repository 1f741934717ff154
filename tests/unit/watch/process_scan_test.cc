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

  void Add(pid_t pid, pid_t parent, int start_ticks, const std::string& command) const {
    const std::string folder = absl::StrCat("/", pid);
    tree.Write(folder + "/stat", absl::StrCat(pid, " (x) S ", parent, " 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 ",
                                              start_ticks, " 8192 1 2 3\n"));
    tree.Write(folder + "/cmdline", command);
    tree.Link(folder + "/exe", "/usr/bin/program");
  }
  ProcessScan Scan(const std::string& match) const {
    ScanSettings settings = {.match = CommandPattern::Compile(match).value(), .self = kWatch, .avoid = {}};
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
