// Root without rights to the files of others, as in a home on NFS, whose server takes root for nobody.
#ifndef COWPROF_TESTS_UNIT_ROOT_AS_ON_NFS_H_
#define COWPROF_TESTS_UNIT_ROOT_AS_ON_NFS_H_

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/functional/function_ref.h"
#include "posix/rights.h"

namespace cowprof {

inline constexpr int kUserOnNfs = 4321;  // who called sudo

// The status of a process of root that ends with what `test` returns. Call as root.
inline int StatusOfRootAsOnNfs(absl::FunctionRef<int()> test) {
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("SUDO_UID", std::to_string(kUserOnNfs).c_str(), 1);
    setenv("SUDO_GID", std::to_string(kUserOnNfs).c_str(), 1);
    _exit(KeepCapabilities(SetOf({CAP_SETUID, CAP_SETGID})).ok() ? test() : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_ROOT_AS_ON_NFS_H_
