// Files that cowprof writes: created so that nobody can make a privileged cowprof write where its user could not.
// Called by the timeline and by `view`; knows nothing of the contents.
#ifndef COWPROF_SINK_OUTPUT_FILE_H_
#define COWPROF_SINK_OUTPUT_FILE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "posix/fd.h"

namespace cowprof {

// Creates `path` anew with `bytes` in it, mode 0600: written aside and renamed, so that it is never seen empty. An
// earlier regular file of that name is kept as `path`.old. Under sudo the file is created as the invoking user
// (SUDO_UID), so that it is theirs and nothing is opened with more rights than they have. Links are not followed; a
// file of somebody else's, or one that has other names, is refused. The status names the path.
absl::StatusOr<Fd> CreateOutputFile(const std::string& path, absl::string_view bytes = "");

// The same for a file that is finished by that; an earlier regular file is replaced.
absl::Status ReplaceOutputFile(const std::string& path, absl::string_view bytes);

// Removes the file that `fd` writes, if it still stands at `path`.
void RemoveOutputFile(const std::string& path, const Fd& fd);

// The file that `fd` writes, open for reading alone: the same one, whatever stands at its path by now.
absl::StatusOr<Fd> OpenToRead(const Fd& fd);

// All of `bytes` at `offset`, or the errno of the first write that failed.
absl::Status WriteFully(int fd, absl::string_view bytes, off_t offset);

}  // namespace cowprof

#endif  // COWPROF_SINK_OUTPUT_FILE_H_
