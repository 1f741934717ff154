// Creates output files with the rights of the invoking user, under a temporary name that is then renamed into place.
#include "posix/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "posix/invoking_user.h"

namespace cowprof {
namespace {

// Call while acting as the invoking user, if there is one.
absl::Status PathError(int error, absl::string_view attempted, const std::string& path, const OutputStyle& style) {
  const absl::Status status = absl::ErrnoToStatus(error, absl::StrCat(attempted, " ", path));
  if (!absl::IsPermissionDenied(status) || geteuid() == getuid()) return status;
  return absl::PermissionDeniedError(absl::StrCat(
      status.message(), " to user ", geteuid(),
      ", who called sudo, with the groups that /etc/group gives them; name another file with ", style.flag));
}

// A name in an open folder, so that renaming a folder above it has no effect.
struct OutputPlace {
  std::string path;  // for messages
  OutputStyle style;
  Fd folder;
  std::string name, aside;
};

absl::StatusOr<OutputPlace> OutputPlaceOf(const std::string& path, const OutputStyle& style) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  OutputPlace place = {
      .path = path, .style = style, .name = slash == std::string::npos ? path : path.substr(slash + 1)};
  if (place.name.empty())
    return absl::FailedPreconditionError(
        absl::StrCat("create ", path, ": not a file name; give one with ", style.flag));
  uint64_t random = 0;
  static_cast<void>(!getrandom(&random, sizeof(random), 0));  // avoids leftovers of a killed run, and planted files
  place.aside = absl::StrCat(place.name, ".", absl::Hex(random, absl::kZeroPad16), ".tmp");
  place.folder = Fd(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place.folder.ok()) return PathError(errno, "create", path, style);
  return place;
}

// True if a regular file exists there that the user owns and that has no other name; an error if anything else does.
absl::StatusOr<bool> IsThere(const OutputPlace& place) {
  struct stat existing;
  if (fstatat(place.folder.fd(), place.name.c_str(), &existing, AT_SYMLINK_NOFOLLOW) != 0) return false;
  const std::string problem = !S_ISREG(existing.st_mode)     ? "is not a regular file"
                              : existing.st_uid != geteuid() ? absl::StrCat("belongs to user ", existing.st_uid)
                              : existing.st_nlink != 1       ? "has other hard links"
                                                             : "";
  if (problem.empty()) return true;
  return absl::FailedPreconditionError(
      absl::StrCat("create ", place.path, ": it exists and ", problem, "; choose another with ", place.style.flag));
}

// Whether its recorder still runs: that holds a lock. False where locks can't be had, as on some NFS mounts.
bool IsBeingWritten(const OutputPlace& place) {
  const Fd file(openat(place.folder.fd(), place.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return file.ok() && flock(file.fd(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

absl::Status BeingWrittenError(const OutputPlace& place) {
  return absl::FailedPreconditionError(absl::StrCat(
      "create ", place.path, ": another recording is being written to it; wait for its end, choose another ",
      "file with ", place.style.flag, ", or, if its host has crashed (NFS may keep the lock), move the file away"));
}

absl::StatusOr<Fd> WriteAside(const OutputPlace& place, absl::string_view bytes) {
  Fd fd(
      openat(place.folder.fd(), place.aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly));
  if (!fd.ok()) return PathError(errno, "create", place.path, place.style);
  absl::Status status = WriteFully(fd.fd(), bytes, 0);
  if (const int error = status.ok() ? ErrorAtClose(fd.fd()) : 0; error != 0)
    status = absl::ErrnoToStatus(error, "write");
  if (place.style.mode != kOwnerOnly && status.ok() && fchmod(fd.fd(), place.style.mode) != 0)
    status = absl::ErrnoToStatus(errno, "change its mode");
  if (!status.ok()) {
    unlinkat(place.folder.fd(), place.aside.c_str(), 0);
    return absl::Status(status.code(), absl::StrCat("write ", place.path, ": ", status.message()));
  }
  return fd;
}

// NFS keeps a file that is unlinked while it is open (.nfs...): the temporary name of `fd` would stay for as long as
// that is open. Until that name is removed, it keeps other recorders away, which refuse a file with two.
void OpenByFinalName(const OutputPlace& place, Fd* fd) {
  Fd again(openat(place.folder.fd(), place.name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat ours, there;
  const bool same = again.ok() && fstat(fd->fd(), &ours) == 0 && fstat(again.fd(), &there) == 0 &&
                    ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  if (!same) return;
  *fd = std::move(again);  // ends the lock, which two descriptors can't share
  static_cast<void>(flock(fd->fd(), LOCK_EX | LOCK_NB));
}

// `fd`: of a file that stays open; may be null.
absl::Status MoveIntoPlace(const OutputPlace& place, unsigned flags, Fd* fd) {
  const int folder = place.folder.fd();
  if (renameat2(folder, place.aside.c_str(), folder, place.name.c_str(), flags) == 0) return absl::OkStatus();
  // Some file systems do not support the flag (EINVAL). linkat() never replaces a file either.
  int error = errno;
  if (flags != 0 && error == EINVAL) {
    const bool linked = linkat(folder, place.aside.c_str(), folder, place.name.c_str(), 0) == 0;
    error = linked ? 0 : errno;
    if (linked && fd != nullptr) OpenByFinalName(place, fd);
  }
  // Those of object stores, by FUSE, have no hard links either.
  struct stat there;
  if ((error == EPERM || error == ENOSYS || error == EOPNOTSUPP) &&
      fstatat(folder, place.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) {
    if (renameat(folder, place.aside.c_str(), folder, place.name.c_str()) == 0) return absl::OkStatus();
    error = errno;
  }
  unlinkat(folder, place.aside.c_str(), 0);
  return error == 0 ? absl::OkStatus() : PathError(error, "create", place.path, place.style);
}

// Makes room for a new file. `older`: without losing NAME.old.
absl::StatusOr<MovedFiles> MoveEarlier(const OutputPlace& place, bool older) {
  const int folder = place.folder.fd();
  const std::string old = place.name + ".old", aside = absl::StrCat(".old", place.aside.substr(place.name.size()));
  MovedFiles moved = {.earlier = true};
  struct stat there;
  older = older && fstatat(folder, old.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(there.st_mode);
  if (older && renameat(folder, old.c_str(), folder, (place.name + aside).c_str()) == 0) moved.older = aside;
  if (renameat(folder, place.name.c_str(), folder, old.c_str()) == 0) return moved;
  const int error = errno;
  if (!moved.older.empty()) renameat(folder, (place.name + aside).c_str(), folder, old.c_str());
  return PathError(error, "keep an earlier recording: rename", place.path, place.style);
}

// False: there was no earlier file, or it stays at NAME.old.
bool MoveBack(int folder, const std::string& name, const MovedFiles& moved, unsigned flags) {
  const std::string old = name + ".old";
  if (!moved.earlier || renameat2(folder, old.c_str(), folder, name.c_str(), flags) != 0) return false;
  if (!moved.older.empty()) renameat(folder, (name + moved.older).c_str(), folder, old.c_str());
  return true;
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

int ErrorAtClose(int fd) {
  const auto close_copy = [fd] {
    const int copy = dup(fd);
    return copy < 0 || close(copy) == 0 ? 0 : errno;  // without a free descriptor nothing is known
  };
  const int error = close_copy();
  return error == EINTR ? close_copy() : error;  // of a new copy: the first one is closed even so
}

absl::StatusOr<Fd> CreateOutputFile(const std::string& path, absl::string_view bytes, MovedFiles* moved) {
  AsInvokingUser user;
  absl::StatusOr<OutputPlace> place = OutputPlaceOf(path, {});
  if (!place.ok()) return place.status();
  const absl::StatusOr<bool> there = IsThere(*place);
  if (!there.ok()) return there.status();
  absl::StatusOr<Fd> fd = WriteAside(*place, bytes);
  if (!fd.ok()) return fd.status();
  const int folder = place->folder.fd();
  // Before it has its name, by which others find it. NFS then sends what close(2) may leave to be sent later; where
  // locks can't be had, there is none.
  const int error = flock(fd->fd(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  if (error == ENOSPC || error == EDQUOT || error == EIO) {
    unlinkat(folder, place->aside.c_str(), 0);
    return PathError(error, "write", path, {});
  }
  if (*there && IsBeingWritten(*place)) {
    unlinkat(folder, place->aside.c_str(), 0);
    return BeingWrittenError(*place);
  }
  absl::StatusOr<MovedFiles> earlier = *there ? MoveEarlier(*place, moved != nullptr) : MovedFiles();
  if (!earlier.ok()) {
    unlinkat(folder, place->aside.c_str(), 0);
    return earlier.status();
  }
  // Do not replace a file that was created here in the meantime.
  if (absl::Status status = MoveIntoPlace(*place, RENAME_NOREPLACE, &*fd); !status.ok()) {
    MoveBack(folder, place->name, *earlier, RENAME_NOREPLACE);
    return absl::IsAlreadyExists(status) && IsBeingWritten(*place) ? BeingWrittenError(*place) : status;
  }
  if (moved != nullptr) {
    *moved = *std::move(earlier);
    moved->folder = std::move(place->folder);
    moved->name = std::move(place->name);
  }
  return fd;
}

absl::Status ReplaceOutputFile(const std::string& path, absl::string_view bytes, const OutputStyle& style) {
  AsInvokingUser user;
  const absl::StatusOr<OutputPlace> place = OutputPlaceOf(path, style);
  if (!place.ok()) return place.status();
  if (const absl::StatusOr<bool> there = IsThere(*place); !there.ok()) return there.status();
  if (const absl::StatusOr<Fd> fd = WriteAside(*place, bytes); !fd.ok()) return fd.status();
  return MoveIntoPlace(*place, 0, /*fd=*/nullptr);
}

void RemoveOutputFile(const Fd& fd, const MovedFiles& moved) {
  AsInvokingUser user;
  const int folder = moved.folder.fd();
  struct stat ours, there;
  const bool same = fstat(fd.fd(), &ours) == 0 &&
                    fstatat(folder, moved.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
                    ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  if (!same) return;
  // In one step where there is an earlier file: nobody finds the name free meanwhile.
  if (!MoveBack(folder, moved.name, moved, 0)) unlinkat(folder, moved.name.c_str(), 0);
}

void RemoveMovedFiles(const MovedFiles& moved) {
  AsInvokingUser user;
  if (!moved.older.empty()) unlinkat(moved.folder.fd(), (moved.name + moved.older).c_str(), 0);
}

absl::StatusOr<Fd> OpenToRead(const Fd& fd) {
  AsInvokingUser user;  // on NFS root may have fewer rights than the owner
  Fd reading(open(absl::StrCat("/proc/self/fd/", fd.fd()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!reading.ok()) return absl::ErrnoToStatus(errno, "open the recording to read it");
  return reading;
}

}  // namespace cowprof
