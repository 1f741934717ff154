// Which files output_file.cc creates, replaces and refuses: it writes to regular files only, keeps an earlier
// recording, and under sudo creates the file with the rights of the invoking user.
#include "posix/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "fixture_tree.h"
#include "json_schema.h"
#include "network_disk.h"
#include "other_groups.h"
#include "skip.h"

namespace cowprof {
namespace {

struct stat StatOf(const std::string& path) {
  struct stat found = {};
  CHECK(lstat(path.c_str(), &found) == 0);
  return found;
}

size_t FilesIn(const std::string& path) {
  return std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator());
}

// Sets the variables of sudo for the duration of a test.
class SudoBy {
 public:
  SudoBy(const char* uid, const char* gid) {
    setenv("SUDO_UID", uid, 1);
    setenv("SUDO_GID", gid, 1);
  }
  ~SudoBy() {
    unsetenv("SUDO_UID");
    unsetenv("SUDO_GID");
  }
};

// The same rules apply to a file that grows and to one that is written at once.
absl::Status Create(const std::string& path, bool replace) {
  return replace ? ReplaceOutputFile(path, "new") : CreateOutputFile(path).status();
}

}  // namespace

TEST_CASE("an output file is accessible to its owner only") {
  FixtureTree tree;
  const mode_t mask = umask(0);
  REQUIRE(CreateOutputFile(tree.root() + "/a").ok());
  REQUIRE(ReplaceOutputFile(tree.root() + "/b", "text").ok());
  umask(mask);
  for (const char* name : {"/a", "/b"}) {
    CHECK((StatOf(tree.root() + name).st_mode & 07777) == 0600);
    CHECK(StatOf(tree.root() + name).st_uid == geteuid());
  }
  CHECK(ReadWhole(tree.root() + "/b") == "text");
  CHECK(FilesIn(tree.root()) == 2);
}

TEST_CASE("a started program does not inherit the output descriptor") {
  FixtureTree tree;
  const auto fd = CreateOutputFile(tree.root() + "/a");
  REQUIRE(fd.ok());
  CHECK((fcntl(fd->fd(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("an earlier recording is kept as .old, but only the latest") {
  FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  tree.Write("/t.json", "first");
  REQUIRE(CreateOutputFile(path).ok());
  CHECK(ReadWhole(path).empty());
  CHECK(ReadWhole(path + ".old") == "first");
  tree.Write("/t.json", "second");
  REQUIRE(CreateOutputFile(path).ok());
  CHECK(ReadWhole(path + ".old") == "second");
  CHECK(FilesIn(tree.root()) == 2);
}

TEST_CASE("a recording that is still being written is refused and left alone") {
  FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  tree.Write("/t.json.old", "before");
  {
    const auto first = CreateOutputFile(path, "first");
    REQUIRE(first.ok());
    const absl::Status status = CreateOutputFile(path, "second").status();
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(absl::StrContains(status.message(), path + ": another recording is being written to it"));
    CHECK(absl::StrContains(status.message(), "--output"));
    CHECK(absl::StrContains(status.message(), "move the file away"));
    CHECK(ReadWhole(path) == "first");
    CHECK(ReadWhole(path + ".old") == "before");
    CHECK(FilesIn(tree.root()) == 2);
  }
  REQUIRE(CreateOutputFile(path, "second").ok());  // its recorder has ended, however it did
  CHECK(ReadWhole(path) == "second");
  CHECK(ReadWhole(path + ".old") == "first");
}

TEST_CASE("a page replaces an earlier one and leaves nothing behind") {
  FixtureTree tree;
  tree.Write("/p.html", "first");
  REQUIRE(ReplaceOutputFile(tree.root() + "/p.html", "second").ok());
  CHECK(ReadWhole(tree.root() + "/p.html") == "second");
  CHECK(FilesIn(tree.root()) == 1);
}

TEST_CASE("anything but a regular file is refused and left alone") {
  const bool replace = GENERATE(false, true);
  FixtureTree tree;
  tree.Write("/victim", "precious");
  tree.Link("/link", tree.root() + "/victim");
  tree.Link("/dangling", tree.root() + "/nowhere");
  tree.Link("/loop", "loop");
  std::filesystem::create_directory(tree.root() + "/dir");
  REQUIRE(mkfifo((tree.root() + "/fifo").c_str(), 0600) == 0);
  const size_t files = FilesIn(tree.root());
  for (const char* name : {"/link", "/dangling", "/loop", "/dir", "/fifo"}) {
    const absl::Status status = Create(tree.root() + name, replace);  // a FIFO must not block it
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(absl::StrContains(status.message(), tree.root() + name));
    CHECK(absl::StrContains(status.message(), "--output"));
  }
  for (const char* device : {"/dev/null", "/dev/full", "/proc/self/fd/1", "/"}) {
    INFO(device);
    CHECK_FALSE(Create(device, replace).ok());
  }
  CHECK(ReadWhole(tree.root() + "/victim") == "precious");
  CHECK_FALSE(std::filesystem::exists(tree.root() + "/nowhere"));
  CHECK(FilesIn(tree.root()) == files);
}

TEST_CASE("a file with hard links, or of another user, is refused and left alone") {
  const bool replace = GENERATE(false, true);
  FixtureTree tree;
  tree.Write("/victim", "precious");
  REQUIRE(link((tree.root() + "/victim").c_str(), (tree.root() + "/hard").c_str()) == 0);
  CHECK(absl::StrContains(Create(tree.root() + "/hard", replace).message(), "hard links"));
  if (geteuid() == 0) {
    tree.Write("/theirs", "precious");
    REQUIRE(chown((tree.root() + "/theirs").c_str(), 4321, 4321) == 0);
    CHECK(absl::StrContains(Create(tree.root() + "/theirs", replace).message(), "belongs to user 4321"));
    CHECK(ReadWhole(tree.root() + "/theirs") == "precious");
  }
  CHECK(ReadWhole(tree.root() + "/victim") == "precious");
  CHECK(FilesIn(tree.root()) == (geteuid() == 0 ? 3 : 2));
}

TEST_CASE("a recording that never began is removed, and nothing else") {
  FixtureTree tree;
  const std::string path = tree.root() + "/a";
  MovedFiles moved, moved_by_other;
  const auto fd = CreateOutputFile(path, "", &moved);
  REQUIRE(fd.ok());
  REQUIRE(rename(path.c_str(), (path + ".old").c_str()) == 0);
  const auto other = CreateOutputFile(path, "", &moved_by_other);
  REQUIRE(other.ok());
  RemoveOutputFile(*fd, moved);
  CHECK(FilesIn(tree.root()) == 2);
  RemoveOutputFile(*other, moved_by_other);
  CHECK(FilesIn(tree.root()) == 1);
}

TEST_CASE("earlier recordings get their names back from one that never began") {
  FixtureTree tree;
  const std::string path = tree.root() + "/a";
  tree.Write("/a.old", "older");
  MovedFiles moved = {.earlier = true, .older = "x"};
  const auto first = CreateOutputFile(path, "first", &moved);
  REQUIRE(first.ok());
  CHECK_FALSE(moved.earlier);
  CHECK(moved.older.empty());
  RemoveOutputFile(*first, moved);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(ReadWhole(path + ".old") == "older");
  tree.Write("/a", "earlier");
  const auto second = CreateOutputFile(path, "second", &moved);
  REQUIRE(second.ok());
  CHECK(moved.earlier);
  CHECK(ReadWhole(path + ".old") == "earlier");
  RemoveOutputFile(*second, moved);
  CHECK(ReadWhole(path) == "earlier");
  CHECK(ReadWhole(path + ".old") == "older");
  CHECK(FilesIn(tree.root()) == 2);
}

TEST_CASE("of the recordings before one that began, only the latest is kept") {
  FixtureTree tree;
  const std::string path = tree.root() + "/a";
  tree.Write("/a.old", "older");
  tree.Write("/a", "earlier");
  MovedFiles moved;
  const auto file = CreateOutputFile(path, "new", &moved);
  REQUIRE(file.ok());
  RemoveMovedFiles(moved);
  CHECK(ReadWhole(path) == "new");
  CHECK(ReadWhole(path + ".old") == "earlier");
  CHECK(FilesIn(tree.root()) == 2);
}

TEST_CASE("names are given back and removed in the folder that was written to, not in one that is at its path now") {
  const bool began = GENERATE(false, true);
  FixtureTree tree;
  const std::string folder = tree.root() + "/out", own = tree.root() + "/own";
  tree.Write("/out/a.old", "older");
  tree.Write("/out/a", "earlier");
  MovedFiles moved;
  const auto file = CreateOutputFile(folder + "/a", "new", &moved);
  REQUIRE(file.ok());
  CHECK((fcntl(moved.folder.fd(), F_GETFD) & FD_CLOEXEC) != 0);
  std::filesystem::rename(folder, own);
  tree.Write("/out/a.old", "precious");
  std::filesystem::create_hard_link(own + "/a", folder + "/a");
  tree.Write("/out/a" + moved.older, "precious");
  if (began) {
    RemoveMovedFiles(moved);
  } else {
    RemoveOutputFile(*file, moved);
  }
  CHECK(ReadWhole(own + "/a") == (began ? "new" : "earlier"));
  CHECK(ReadWhole(own + "/a.old") == (began ? "earlier" : "older"));
  CHECK(FilesIn(own) == 2);
  CHECK(ReadWhole(folder + "/a") == "new");
  CHECK(ReadWhole(folder + "/a.old") == "precious");
  CHECK(FilesIn(folder) == 3);
}

TEST_CASE("a folder where an earlier recording would go is refused, and all stays") {
  FixtureTree tree;
  const std::string path = tree.root() + "/a";
  tree.Write("/a", "earlier");
  std::filesystem::create_directory(path + ".old");
  MovedFiles moved;
  CHECK(absl::StrContains(CreateOutputFile(path, "new", &moved).status().message(), "keep an earlier recording"));
  CHECK(ReadWhole(path) == "earlier");
  CHECK(std::filesystem::is_directory(path + ".old"));
  CHECK(FilesIn(tree.root()) == 2);
}

TEST_CASE("an impossible path is reported with the reason") {
  const bool replace = GENERATE(false, true);
  FixtureTree tree;
  tree.Write("/file", "");
  for (const auto& [name, reason] : {std::pair<std::string, std::string>{"/no/such/dir", "No such file"},
                                     {"/file/below", "Not a directory"},
                                     {"/" + std::string(300, 'x'), "too long"}}) {
    const absl::Status status = Create(tree.root() + name, replace);
    INFO(status);
    CHECK_FALSE(status.ok());
    CHECK(absl::StrContains(status.message(), tree.root() + name));
    CHECK(absl::StrContains(status.message(), reason));
  }
  CHECK_FALSE(Create("", replace).ok());
}

TEST_CASE("a page that can't be written leaves the earlier one in place") {
  FixtureTree tree;
  tree.Write("/p.html", "first");
  std::filesystem::create_directory(tree.root() + "/dir");
  CHECK_FALSE(ReplaceOutputFile(tree.root() + "/dir", "second").ok());
  CHECK(FilesIn(tree.root()) == 2);
  CHECK(ReadWhole(tree.root() + "/p.html") == "first");
}

TEST_CASE("under sudo a file belongs to the invoking user and is created with their rights") {
  if (LacksRoot()) return;
  FixtureTree tree;
  const std::string root = tree.root();
  REQUIRE(chmod(root.c_str(), 0755) == 0);
  std::filesystem::create_directory(root + "/theirs");
  REQUIRE(chown((root + "/theirs").c_str(), 4321, 1234) == 0);
  tree.Write("/root.json", "root's");
  {
    SudoBy user("4321", "1234");
    for (const bool replace : {false, true}) {
      const std::string path = root + (replace ? "/theirs/b" : "/theirs/a");
      REQUIRE(Create(path, replace).ok());
      CHECK(StatOf(path).st_uid == 4321);
      CHECK(StatOf(path).st_gid == 1234);
      CHECK(geteuid() == 0);
      CHECK(getegid() == 0);
      // Root could write there, the invoking user could not.
      CHECK(Create(root + "/new", replace).code() == absl::StatusCode::kPermissionDenied);
      CHECK_FALSE(Create(root + "/root.json", replace).ok());
    }
  }
  CHECK(ReadWhole(root + "/root.json") == "root's");
  CHECK(Create(root + "/new", false).ok());
}

// As a folder of a lab's team.
TEST_CASE("under sudo a folder that the user may write through a group is written") {
  if (LacksRoot()) return;
  const bool replace = GENERATE(false, true);
  FixtureTree tree;
  const std::string root = tree.root(), file = root + "/team/a";
  REQUIRE(chmod(root.c_str(), 0755) == 0);
  std::filesystem::create_directory(root + "/team");
  REQUIRE(chown((root + "/team").c_str(), 0, 4999) == 0);
  REQUIRE(chmod((root + "/team").c_str(), 0770) == 0);
  tree.Write("/group", "team:x:4999:somebody\n");
  const pid_t pid = fork();
  if (pid == 0) {
    if (!TakeForGroups(root + "/group")) _exit(1);
    const int groups = getgroups(0, nullptr);
    const SudoBy user("4321", "1234");
    setenv("SUDO_USER", "another", 1);
    const absl::Status refused = Create(file, replace);
    if (!absl::EndsWith(refused.message(),
                        "Permission denied to user 4321, who called sudo, with the groups that "
                        "/etc/group gives them; name another file with --output"))
      _exit(2);
    setenv("SUDO_USER", "somebody", 1);
    _exit(Create(file, replace).ok() && getgroups(0, nullptr) == groups ? 0 : 3);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  if (Lacks("mount namespaces", WEXITSTATUS(status) != 1, "unshare() or mount() fails")) return;
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(StatOf(file).st_uid == 4321);
}

TEST_CASE("an invalid sudo environment is ignored") {
  if (LacksRoot()) return;
  const char* uid = GENERATE("", "x", "-1", "99999999999", "12 ;");
  FixtureTree tree;
  SudoBy user(uid, "0");
  REQUIRE(CreateOutputFile(tree.root() + "/a").ok());
  CHECK(StatOf(tree.root() + "/a").st_uid == 0);
  CHECK(geteuid() == 0);
}

TEST_CASE("what a network file system could not keep is an error at close, and an earlier file stays") {
  const bool replace = GENERATE(false, true);
  FixtureTree tree;
  NetworkDisk disk(tree.root());
  if (disk.IsLacking()) return;
  const std::string path = tree.root() + "/a";
  REQUIRE(ReplaceOutputFile(path, "first").ok());
  disk.FailAtClose(EDQUOT);
  const absl::Status status = Create(path, replace);
  CHECK(absl::StrContains(status.message(), "write " + path + ": "));
  CHECK(absl::StrContains(status.message(), "Disk quota exceeded"));
  disk.FailAtClose(0);
  CHECK(ReadWhole(path) == "first");
  CHECK(FilesIn(tree.root()) == 1);
  REQUIRE(Create(path, replace).ok());
  CHECK(ReadWhole(path) == (replace ? "new" : ""));
}

// NFS would keep the other one until the file is closed.
TEST_CASE("where rename knows no flags, a file is open by its final name, and is locked") {
  FixtureTree tree;
  const NetworkDisk disk(tree.root());
  if (disk.IsLacking()) return;
  const std::string path = tree.root() + "/a";
  const auto file = CreateOutputFile(path, "first");
  REQUIRE(file.ok());
  CHECK(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file->fd())) == path);
  CHECK((fcntl(file->fd(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(absl::StrContains(CreateOutputFile(path).status().message(), "another recording is being written to it"));
  REQUIRE(WriteFully(file->fd(), "more", 5).ok());
  CHECK(ReadWhole(path) == "firstmore");
  CHECK(FilesIn(tree.root()) == 1);
}

TEST_CASE("a lock that a network file system refuses is done without, but not what it could not keep") {
  const auto [error, refused] =
      GENERATE(table<int, bool>({{ENOLCK, false}, {ENOSPC, true}, {EDQUOT, true}, {EIO, true}}));
  FixtureTree tree;
  const NetworkDisk disk(tree.root(), /*lock_error=*/error);
  if (disk.IsLacking()) return;
  const absl::Status status = CreateOutputFile(tree.root() + "/a", "text").status();
  INFO(status);
  CHECK(status.ok() == !refused);
  CHECK(FilesIn(tree.root()) == (refused ? 0u : 1u));
}

TEST_CASE("everything is written at its offset, or the reason is returned") {
  FixtureTree tree;
  const auto fd = CreateOutputFile(tree.root() + "/a");
  REQUIRE(fd.ok());
  REQUIRE(WriteFully(fd->fd(), "hello world", 0).ok());
  REQUIRE(WriteFully(fd->fd(), "W", 6).ok());
  REQUIRE(WriteFully(fd->fd(), "", 0).ok());
  CHECK(ReadWhole(tree.root() + "/a") == "hello World");
  const Fd full(open("/dev/full", O_WRONLY));
  CHECK(absl::StrContains(WriteFully(full.fd(), "x", 0).message(), "No space left"));
  CHECK_FALSE(WriteFully(-1, "x", 0).ok());
}

}  // namespace cowprof
