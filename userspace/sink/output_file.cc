// Creates output files with the rights of the user who asked. See output_file.h.
#include "sink/output_file.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "posix/rights.h"

namespace cowprof {
namespace {

// Acts as the user who called sudo, while it lives.
class AsInvokingUser {
 public:
  AsInvokingUser() {
    const std::optional<UserIds> user = InvokedBySudo();
    if (!user) return;
    // The groups first: without root they can't be changed any more.
    groups_.resize(std::max(getgroups(0, nullptr), 0));
    groups_.resize(std::max(getgroups(static_cast<int>(groups_.size()), groups_.data()), 0));
    active_ = setgroups(1, &user->gid) == 0 && setegid(user->gid) == 0 && seteuid(user->uid) == 0;
  }
  ~AsInvokingUser() {
    if (!active_) return;
    if (seteuid(0) != 0 || setegid(0) != 0 || setgroups(groups_.size(), groups_.data()) != 0) abort();
  }
  AsInvokingUser(const AsInvokingUser&) = delete;

 private:
  std::vector<gid_t> groups_;
  bool active_ = false;
};

absl::Status PathError(int error, absl::string_view attempted, const std::string& path) {
  return absl::ErrnoToStatus(error, absl::StrCat(attempted, " ", path));
}

// Whether a regular file stands at `path`; anything else there is refused.
absl::StatusOr<bool> IsThere(const std::string& path) {
  struct stat existing;
  if (lstat(path.c_str(), &existing) != 0) return false;
  if (S_ISREG(existing.st_mode)) return true;
  return absl::FailedPreconditionError(
      absl::StrCat("create ", path, ": it exists and is no regular file; name another with --output"));
}

std::string AsideOf(const std::string& path) { return absl::StrCat(path, ".", getpid(), ".tmp"); }

absl::StatusOr<Fd> WriteAside(const std::string& path, absl::string_view bytes) {
  const std::string aside = AsideOf(path);
  Fd fd(open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.ok()) return PathError(errno, "create", path);
  if (absl::Status status = WriteFully(fd.fd(), bytes, 0); !status.ok()) {
    unlink(aside.c_str());
    return absl::Status(status.code(), absl::StrCat("write ", path, ": ", status.message()));
  }
  return fd;
}

absl::Status MoveIntoPlace(const std::string& path, unsigned flags) {
  const std::string aside = AsideOf(path);
  if (renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, path.c_str(), flags) == 0) return absl::OkStatus();
  // Not every file system knows the flag (EINVAL): link() refuses to replace, too.
  if (flags != 0 && errno == EINVAL && link(aside.c_str(), path.c_str()) == 0) {
    unlink(aside.c_str());
    return absl::OkStatus();
  }
  const int error = errno;
  unlink(aside.c_str());
  return PathError(error, "create", path);
}

}  // namespace

absl::Status WriteFully(int fd, absl::string_view bytes, off_t offset) {
  while (!bytes.empty()) {
    const ssize_t wrote = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return absl::ErrnoToStatus(wrote < 0 ? errno : ENOSPC, "write");
    bytes.remove_prefix(wrote);
    offset += wrote;
  }
  return absl::OkStatus();
}

absl::StatusOr<Fd> CreateOutputFile(const std::string& path, absl::string_view bytes) {
  AsInvokingUser user;
  const absl::StatusOr<bool> there = IsThere(path);
  if (!there.ok()) return there.status();
  absl::StatusOr<Fd> fd = WriteAside(path, bytes);
  if (!fd.ok()) return fd.status();
  if (*there && rename(path.c_str(), absl::StrCat(path, ".old").c_str()) != 0) {
    unlink(AsideOf(path).c_str());
    return PathError(errno, "keep an earlier recording: rename", path);
  }
  // What somebody put there in the meantime is not ours to replace.
  if (absl::Status status = MoveIntoPlace(path, RENAME_NOREPLACE); !status.ok()) return status;
  return fd;
}

absl::Status ReplaceOutputFile(const std::string& path, absl::string_view bytes) {
  AsInvokingUser user;
  if (const absl::StatusOr<bool> there = IsThere(path); !there.ok()) return there.status();
  if (const absl::StatusOr<Fd> fd = WriteAside(path, bytes); !fd.ok()) return fd.status();
  return MoveIntoPlace(path, 0);
}

absl::StatusOr<Fd> OpenToRead(const Fd& fd) {
  AsInvokingUser user;  // root may have less rights than its owner has, as on NFS
  Fd reading(open(absl::StrCat("/proc/self/fd/", fd.fd()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!reading.ok()) return absl::ErrnoToStatus(errno, "open the recording to read it");
  return reading;
}

}  // namespace cowprof
