// The process that writes the file of metrics: what it writes, what it refuses, and that it says so once.
#include "sink/metrics/metrics_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "fixture_tree.h"
#include "network_disk.h"
#include "other_groups.h"
#include "skip.h"

namespace cowprof {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::unique_ptr<MetricsFile> Writer() {
  absl::StatusOr<std::unique_ptr<MetricsFile>> file = MetricsFile::Start();
  REQUIRE(file.ok());
  return *std::move(file);
}

}  // namespace

TEST_CASE("metrics file: readable for all, replaced as a whole, large or not") {
  FixtureTree tree;
  const std::string path = tree.root() + "/cowprof.prom";
  const mode_t mask = umask(077);
  auto file = Writer();
  umask(mask);
  const absl::Status status = file->Open(path, "first\n");
  INFO(status);
  REQUIRE(status.ok());
  CHECK(Contents(path) == "first\n");
  struct stat found = {};
  REQUIRE(stat(path.c_str(), &found) == 0);
  CHECK((found.st_mode & 07777) == 0644);
  CHECK(found.st_uid == geteuid());
  const std::string large(3 << 20, 'x');  // more than a socket takes at once
  CHECK(file->Write(large).empty());
  CHECK(file->Finish("last\n").empty());
  CHECK(Contents(path) == "last\n");
  CHECK(std::distance(std::filesystem::directory_iterator(tree.root()), {}) == 1);
}

TEST_CASE("metrics file: links, folders and what does not exist are refused at the start") {
  FixtureTree tree;
  tree.Write("/other", "mine");
  REQUIRE(symlink((tree.root() + "/other").c_str(), (tree.root() + "/link.prom").c_str()) == 0);
  REQUIRE(link((tree.root() + "/other").c_str(), (tree.root() + "/hard.prom").c_str()) == 0);
  REQUIRE(mkdir((tree.root() + "/folder.prom").c_str(), 0755) == 0);
  REQUIRE(mkfifo((tree.root() + "/fifo.prom").c_str(), 0600) == 0);
  for (const char* name : {"/link.prom", "/hard.prom", "/folder.prom", "/fifo.prom", "/none/x.prom", "/"}) {
    const absl::Status status = Writer()->Open(tree.root() + name, "new");
    INFO(name << ": " << status);
    CHECK_FALSE(status.ok());
    CHECK(absl::StartsWith(status.message(), "--metrics-file: "));
    CHECK_FALSE(absl::StrContains(status.message(), "--output"));
  }
  CHECK(Contents(tree.root() + "/other") == "mine");
}

TEST_CASE("metrics file: under sudo in a folder that the user may write through a group") {
  if (LacksRoot()) return;
  FixtureTree tree;
  const std::string root = tree.root(), team = root + "/team";
  REQUIRE(chmod(root.c_str(), 0755) == 0);
  REQUIRE(mkdir(team.c_str(), 0770) == 0);
  REQUIRE(chown(team.c_str(), 0, 4999) == 0);
  REQUIRE(chmod(team.c_str(), 0770) == 0);
  tree.Write("/group", "team:x:4999:somebody\n");
  const pid_t pid = fork();
  if (pid == 0) {
    if (!TakeForGroups(root + "/group")) _exit(1);
    setenv("SUDO_UID", "4321", 1);
    setenv("SUDO_GID", "1234", 1);
    setenv("SUDO_USER", "somebody", 1);
    auto file = MetricsFile::Start();
    _exit(file.ok() && (*file)->Open(team + "/cowprof.prom", "1").ok() ? 0 : 2);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  if (Lacks("mount namespaces", WEXITSTATUS(status) != 1, "unshare() or mount() fails")) return;
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(Contents(team + "/cowprof.prom") == "1");
}

TEST_CASE("metrics file: a failure later is said once, and writing goes on when it can") {
  FixtureTree tree;
  const std::string folder = tree.root() + "/metrics", path = folder + "/cowprof.prom";
  REQUIRE(mkdir(folder.c_str(), 0755) == 0);
  auto file = Writer();
  REQUIRE(file->Open(path, "1").ok());
  REQUIRE(rename(folder.c_str(), (folder + "-away").c_str()) == 0);
  int said = 0;
  for (int i = 0; i < 50; ++i) {
    const std::string failure = file->Write("2");
    if (failure.empty()) {
      usleep(5000);
      continue;
    }
    ++said;
    CHECK(absl::StrContains(failure, "No such file or directory; recording continues"));
  }
  CHECK(said == 1);
  REQUIRE(rename((folder + "-away").c_str(), folder.c_str()) == 0);
  CHECK(file->Finish("3").empty());
  CHECK(Contents(path) == "3");
}

TEST_CASE("metrics file: what a network file system lost was not written") {
  FixtureTree tree;
  NetworkDisk disk(tree.root());
  if (disk.IsLacking()) return;
  const std::string path = tree.root() + "/cowprof.prom";
  auto file = Writer();
  REQUIRE(file->Open(path, "1").ok());
  disk.FailAtClose(EDQUOT);
  CHECK(absl::StrContains(file->Finish("2"), "Disk quota exceeded"));
  disk.FailAtClose(0);
  CHECK(Contents(path) == "1");
}

TEST_CASE("metrics file: of watch's process, which is gone, a recorder says nothing") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  auto file = MetricsFile::Over(Fd(ends[0]));
  close(ends[1]);
  CHECK(file->Write("1").empty());
  CHECK(file->Finish("2").empty());
}

}  // namespace cowprof
