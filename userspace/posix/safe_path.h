// Who could change a program before it is run.
#ifndef COWPROF_POSIX_SAFE_PATH_H_
#define COWPROF_POSIX_SAFE_PATH_H_

#include <sys/types.h>

#include <initializer_list>
#include <string>

namespace cowprof {

// Why someone other than root and `user` could change what a path names, or a folder above it, links resolved; "":
// nobody can.
std::string WeaknessOfPath(const std::string& path, uid_t user);
// The same for all that is in a folder and below it, as deep as it goes. Folders whose name is in `but` are left out.
std::string WeaknessOfTree(const std::string& folder, uid_t user, const std::initializer_list<const char*>& but);

}  // namespace cowprof

#endif  // COWPROF_POSIX_SAFE_PATH_H_
