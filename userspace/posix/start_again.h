// Starts cowprof's own program again, as a process that shares nothing with this one but what it is given.
#ifndef COWPROF_POSIX_START_AGAIN_H_
#define COWPROF_POSIX_START_AGAIN_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cowprof {

struct StartAgain {
  std::vector<std::string> arguments;    // after the program's name
  std::vector<std::string> environment;  // "NAME=VALUE", all that it gets
  std::vector<int> descriptors;  // it has copies of these as 3, 4, ... and no others but stderr; 0 and 1 are /dev/null
  bool own_session = false;      // otherwise a process group of its own; either way the terminal's Ctrl-C passes it by
  sigset_t signals = {};         // blocked in it
};
// Returns its pid. The caller has to reap it.
absl::StatusOr<pid_t> Start(StartAgain what);

}  // namespace cowprof

#endif  // COWPROF_POSIX_START_AGAIN_H_
