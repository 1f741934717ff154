// Opens a folder that another root folder has, such as a container's. Called by source/shm; knows no path by itself.
#ifndef COWPROF_POSIX_OPEN_IN_ROOT_H_
#define COWPROF_POSIX_OPEN_IN_ROOT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "posix/fd.h"

namespace cowprof {

// Links are followed inside of `root`, never to folders of the host; whoever renames folders meanwhile gains nothing.
// By hand, as openat2(2) has its flags behind a pointer: a filter that lets it pass lets files be opened to write them.
Fd OpenFolderInRoot(const std::string& root, absl::string_view path);

}  // namespace cowprof

#endif  // COWPROF_POSIX_OPEN_IN_ROOT_H_
