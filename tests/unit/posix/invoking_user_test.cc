// Reading as whichever of root and the user who called sudo may, as in a home on NFS.
#include "posix/invoking_user.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fixture_tree.h"
#include "posix/fd.h"
#include "root_as_on_nfs.h"
#include "skip.h"

namespace cowprof {
namespace {

bool Opens(const std::string& path) {
  return AsEitherUser([&] { return Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC)).ok(); });
}

}  // namespace

TEST_CASE("what only root may read, and what only the user who called sudo may, is read") {
  if (LacksRoot()) return;
  FixtureTree tree;
  const std::string theirs = tree.root() + "/theirs", roots = tree.root() + "/roots", others = tree.root() + "/others";
  for (const auto& [path, user] : {std::pair(theirs, kUserOnNfs), {roots, 0}, {others, kUserOnNfs + 1}}) {
    tree.Write(path.substr(tree.root().size()), "text");
    REQUIRE(chown(path.c_str(), user, user) == 0);
    REQUIRE(chmod(path.c_str(), 0600) == 0);
  }
  REQUIRE(chmod(tree.root().c_str(), 0755) == 0);
  const int status = StatusOfRootAsOnNfs([&] {
    if (!Opens(theirs) || !Opens(roots) || geteuid() != 0 || getegid() != 0) return 2;
    if (Opens(others) || errno != EACCES) return 3;
    if (Opens(theirs + "/no") || Opens(tree.root() + "/no") || errno != ENOENT) return 4;
    std::vector<std::jthread> threads;
    std::atomic<int> failures = 0;
    for (const std::string& path : {theirs, roots, theirs, roots}) {
      threads.emplace_back([&failures, path] {
        for (int i = 0; i < 50; ++i) failures += !Opens(path);
      });
    }
    threads.clear();
    if (failures > 0) return 5;
    unsetenv("SUDO_UID");
    return Opens(theirs) || !Opens(roots) ? 6 : 0;
  });
  CHECK(status == 0);
}

}  // namespace cowprof
