#include "posix/start_again.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "posix/fd.h"

namespace cowprof {
namespace {

constexpr int kFirst = STDERR_FILENO + 1;

std::vector<char*> PointersTo(std::vector<std::string>* words) {
  std::vector<char*> pointers;
  for (std::string& word : *words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<pid_t> Start(StartAgain what) {
  const int end = kFirst + static_cast<int>(what.descriptors.size());
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<Fd> sources;  // above all that they become: none overwrites another
  for (const int fd : what.descriptors) {
    sources.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, end));
    posix_spawn_file_actions_adddup2(&actions, sources.back().fd(), kFirst + static_cast<int>(sources.size()) - 1);
  }
  posix_spawn_file_actions_addclosefrom_np(&actions, end);
  posix_spawnattr_setflags(&attributes,
                           (what.own_session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP) | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &what.signals);
  what.arguments.insert(what.arguments.begin(), "cowprof");
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, PointersTo(&what.arguments).data(),
                                PointersTo(&what.environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return absl::ErrnoToStatus(error, "posix_spawn");
  return pid;
}

}  // namespace cowprof
