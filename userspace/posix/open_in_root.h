// Opens a folder below another root, such as a container's, without ever leaving that root.
#ifndef COWPROF_POSIX_OPEN_IN_ROOT_H_
#define COWPROF_POSIX_OPEN_IN_ROOT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "posix/fd.h"

namespace cowprof {

// Resolves symbolic links inside `root`, never to folders of the host; renaming folders during the walk gains nothing.
// openat2(2) with RESOLVE_IN_ROOT would do the same, but it takes its flags through a pointer: a seccomp filter that
// allows it cannot rule out opening files for writing.
Fd OpenFolderInRoot(const std::string& root, absl::string_view path);

}  // namespace cowprof

#endif  // COWPROF_POSIX_OPEN_IN_ROOT_H_
