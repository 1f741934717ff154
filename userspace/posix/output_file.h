// Creates the files that cowprof writes, such that a privileged cowprof never writes where its user could not. Knows
// nothing about their contents.
#ifndef COWPROF_POSIX_OUTPUT_FILE_H_
#define COWPROF_POSIX_OUTPUT_FILE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "posix/fd.h"

namespace cowprof {

inline constexpr mode_t kOwnerOnly = 0600;
struct OutputStyle {
  mode_t mode = kOwnerOnly;       // whatever the umask
  const char* flag = "--output";  // that names the path, for messages
};

// Where a recording has its name, and what it moved to have it; given back if it never begins.
struct MovedFiles {
  Fd folder;             // held open: another may be at its path by now
  std::string name;      // in `folder`
  bool earlier = false;  // to `name`.old
  std::string older;     // what was `name`.old before: where it is now, after `name`; "": there was none
};

// Creates `path` with mode 0600 and `bytes` as its contents: written under a temporary name and renamed, so that it is
// never seen empty. An earlier regular file of that name is kept as `path`.old. Under sudo the file is created as the
// invoking user (SUDO_UID): they own it, and nothing is opened with more rights than they have. Does not follow links,
// and refuses to touch a file that belongs to another user or has other hard links. The file is locked (flock) for as
// long as it is open, and one that another recorder has locked is refused. The status names the path. `moved`: an
// earlier `path`.old is kept as well, until RemoveMovedFiles().
absl::StatusOr<Fd> CreateOutputFile(const std::string& path, absl::string_view bytes = "", MovedFiles* moved = nullptr);

// The same for a file that is complete at once; replaces an earlier regular file.
absl::Status ReplaceOutputFile(const std::string& path, absl::string_view bytes, const OutputStyle& style = {});

// Removes the file that `fd` writes if it still has its name, and gives moved files theirs back. `moved`: as
// CreateOutputFile() set it.
void RemoveOutputFile(const Fd& fd, const MovedFiles& moved);
// For a recording that has begun: only the latest earlier one is kept.
void RemoveMovedFiles(const MovedFiles& moved);

// Opens the file that `fd` writes for reading only: the same file, whatever is at its path by now.
absl::StatusOr<Fd> OpenToRead(const Fd& fd);

// Writes all of `bytes` at `offset`; otherwise the status has the errno of the first write that failed.
absl::Status WriteFully(int fd, absl::string_view bytes, off_t offset);

// What close(2) of a copy of `fd` says, as an errno value; `fd` stays open and locked. Network file systems (NFS, SMB,
// FUSE) send there what was written, and may find the disk or a quota full.
int ErrorAtClose(int fd);

}  // namespace cowprof

#endif  // COWPROF_POSIX_OUTPUT_FILE_H_
