#include "posix/safe_path.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "skip.h"

namespace cowprof {
namespace {

struct Folder {
  Folder() {
    char path[] = "/tmp/cowprof-safe-path-XXXXXX";
    root = mkdtemp(path);
    std::filesystem::create_directory(root + "/lib");
    std::ofstream(root + "/lib/module.py") << "";
    std::ofstream(root + "/python") << "";
  }
  ~Folder() { std::filesystem::remove_all(root); }
  std::string root;
};

TEST_CASE("safe path: a path that only its user can change is safe", "[safe_path]") {
  const Folder folder;
  CHECK(WeaknessOfPath(folder.root + "/python", getuid()).empty());
  CHECK(WeaknessOfTree(folder.root + "/lib", getuid(), {}).empty());
  CHECK_FALSE(WeaknessOfPath(folder.root + "/missing", getuid()).empty());
}

TEST_CASE("safe path: what others can write is not, nor what lies in it", "[safe_path]") {
  const Folder folder;
  SECTION("the file") { chmod((folder.root + "/python").c_str(), 0777); }
  SECTION("a folder above it") { chmod(folder.root.c_str(), 0777); }
  CHECK_FALSE(WeaknessOfPath(folder.root + "/python", getuid()).empty());
}

// As by `setfacl -m u:1234:rw`: to root's file it looks like a right of root's group.
TEST_CASE("safe path: what an access control list lets another user write is not", "[safe_path]") {
  if (LacksRoot()) return;
  struct Entry {
    uint16_t tag, rights;
    uint32_t id;
  };
  const Folder folder;
  const bool writes = GENERATE(true, false);
  const uint16_t rights = writes ? 6 : 4;
  // Of the owner, user 1234, the group, the mask and others: include/uapi/linux/posix_acl.h.
  const struct List {
    uint32_t version;
    Entry entries[5];
  } list = {.version = 2,
            .entries = {{1, 6, ~0u}, {2, rights, 1234}, {4, 4, ~0u}, {0x10, rights, ~0u}, {0x20, 4, ~0u}}};
  std::string path = folder.root;
  SECTION("the file") { path += "/python"; }
  SECTION("a folder above it") {}
  REQUIRE(chown(path.c_str(), 0, 0) == 0);
  const bool taken = setxattr(path.c_str(), "system.posix_acl_access", &list, sizeof(list), 0) == 0;
  if (Lacks("access control lists", taken, "setxattr() fails in /tmp")) return;
  CHECK(WeaknessOfPath(folder.root + "/python", 0) == (writes ? "others can write " + path + "; chmod go-w it" : ""));
  chmod(path.c_str(), 0755);
  CHECK(WeaknessOfPath(folder.root + "/python", 0).empty());
}

TEST_CASE("safe path: one file of a tree is enough", "[safe_path]") {
  const Folder folder;
  chmod((folder.root + "/lib/module.py").c_str(), 0666);
  CHECK_FALSE(WeaknessOfTree(folder.root + "/lib", getuid(), {}).empty());
  CHECK(WeaknessOfTree(folder.root, getuid(), {"lib"}).empty());
}

TEST_CASE("safe path: a link is as safe as what it leads to", "[safe_path]") {
  const Folder folder;
  const Folder other;
  chmod((other.root + "/python").c_str(), 0666);
  std::filesystem::create_symlink(other.root + "/python", folder.root + "/lib/link.py");
  CHECK_FALSE(WeaknessOfTree(folder.root + "/lib", getuid(), {}).empty());
}

TEST_CASE("safe path: another user's file is not root's", "[safe_path]") {
  if (geteuid() != 0) return;
  const Folder folder;
  REQUIRE(chown((folder.root + "/python").c_str(), 1234, 1234) == 0);
  CHECK_FALSE(WeaknessOfPath(folder.root + "/python", 0).empty());
  CHECK(WeaknessOfPath(folder.root + "/python", 1234).empty());
}

}  // namespace
}  // namespace cowprof
