// Compares namespaces by inode number, and /proc/self with our own pid.
#include "source/namespaces.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

// The initial namespaces have fixed inode numbers, include/linux/proc_ns.h. Kernels without time namespaces do not have
// their link.
bool IsFirst(const char* path, ino_t first) {
  struct stat file;
  return stat(path, &file) != 0 || file.st_ino == first;
}

}  // namespace

bool HasHostPids() { return IsFirst("/proc/self/ns/pid", 0xEFFFFFFC); }
bool HasHostName() { return IsFirst("/proc/self/ns/uts", 0xEFFFFFFE); }
bool HasHostIpc() { return IsFirst("/proc/self/ns/ipc", 0xEFFFFFFF); }
bool HasHostClock() { return IsFirst("/proc/self/ns/time", 0xEFFFFFFA); }
bool HasHostUsers() { return IsFirst("/proc/self/ns/user", 0xEFFFFFFD); }

absl::Status CheckProc(const ProcFs& proc) {
  const std::string self = absl::StrCat(proc.root(), "/self");
  char text[16] = {};
  const ssize_t length = readlink(self.c_str(), text, sizeof(text) - 1);
  if (length <= 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(proc.root(),
                     " is not mounted here or shows no processes, so none can be read; mount it with: "
                     "mount -t proc proc ",
                     proc.root()));
  }
  pid_t pid = 0;
  if (absl::SimpleAtoi(text, &pid) && pid == getpid()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(proc.root(),
                   " belongs to another pid namespace than cowprof, in which pids mean other processes; mount the "
                   "right one with: mount -t proc proc ",
                   proc.root()));
}

}  // namespace cowprof
