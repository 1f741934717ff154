#include "posix/safe_path.h"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

constexpr int kMostFiles = 50'000;

std::string Weakness(const std::string& path, uid_t user) {
  struct stat file;
  if (stat(path.c_str(), &file) != 0) return absl::StrCat("stat ", path, ": ", strerror(errno));
  if (file.st_uid != 0 && file.st_uid != user)
    return absl::StrCat(path, " belongs to user ", file.st_uid, "; chown it to root or to yourself");
  // Of a file with an access control list the group bits are the list's mask: any user or group may have them.
  const bool listed = getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
  const bool others = (file.st_mode & S_IWOTH) || ((file.st_mode & S_IWGRP) && (file.st_gid != 0 || listed));
  // In a sticky directory, such as /tmp, others can't replace files that are not theirs.
  const bool sticky = S_ISDIR(file.st_mode) && (file.st_mode & S_ISVTX);
  if (others && !sticky) return absl::StrCat("others can write ", path, "; chmod go-w it");
  return "";
}

}  // namespace

std::string WeaknessOfPath(const std::string& path, uid_t user) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), free);
  if (real == nullptr) return absl::StrCat("resolve ", path, ": ", strerror(errno));
  for (std::string part = real.get();; part = part.substr(0, std::max<size_t>(part.rfind('/'), 1))) {
    if (std::string weakness = Weakness(part, user); !weakness.empty()) return weakness;
    if (part == "/") return "";
  }
}

std::string WeaknessOfTree(const std::string& folder, uid_t user, const std::initializer_list<const char*>& but) {
  if (std::string weakness = WeaknessOfPath(folder, user); !weakness.empty()) return weakness;
  std::error_code error;
  int files = 0;
  for (std::filesystem::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (++files > kMostFiles) return absl::StrCat(folder, " holds too many files to check");
    const std::string name = at->path().filename().string();
    if (std::find(but.begin(), but.end(), name) != but.end()) {
      at.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    // A link may lead anywhere.
    std::string weakness =
        at->is_symlink(ignored) ? WeaknessOfPath(at->path().string(), user) : Weakness(at->path().string(), user);
    if (!weakness.empty()) return weakness;
  }
  return error ? absl::StrCat("read ", folder, ": ", error.message()) : "";
}

}  // namespace cowprof
