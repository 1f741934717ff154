// Reads the files of /proc/PID; proc_text.h parses them. Judges nothing. A process that is gone is NotFound, one that
// may not be read is PermissionDenied.
#ifndef COWPROF_SOURCE_PROCFS_H_
#define COWPROF_SOURCE_PROCFS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "source/proc_text.h"

namespace cowprof {

// Reads below one root: "/proc", except in tests.
class ProcFs {
 public:
  explicit ProcFs(std::string root = "/proc") : root_(std::move(root)) {}

  const std::string& root() const { return root_; }
  std::string PathOf(pid_t pid, absl::string_view file) const;  // "/proc/12/stat"
  absl::StatusOr<std::string> ReadFile(pid_t pid, absl::string_view file) const;
  // The first `most` bytes, for files whose size the target chooses; "" if it can't be read.
  std::string ReadHead(pid_t pid, absl::string_view file, size_t most) const;
  absl::StatusOr<ProcStat> ReadStat(pid_t pid) const;
  // status, stat and fd of `id`; NotFound if the process is gone or the pid was reused (compares the start time).
  // `faults`, unless null: as of ProcStat.
  absl::StatusOr<ProcFigures> ReadFigures(const ProcessId& id, uint64_t page_bytes, uint64_t* faults = nullptr) const;
  // Never empty: NotFound also of a process without memory, as one that exits, a zombie or a thread of the kernel.
  absl::StatusOr<std::vector<Mapping>> ReadMaps(pid_t pid) const;
  absl::StatusOr<RollupFigures> ReadRollup(pid_t pid) const;
  std::string ReadCommandLine(pid_t pid) const;  // at most kMaxCommandBytes; "" if there is none
  // Path of the program that it runs, which may end in " (deleted)". "": not known, as without the right to look.
  std::string ReadExecutable(pid_t pid) const;
  // What getpid() returns in the process, by the last of NSpid; 0: not known, as before Linux 4.1.
  pid_t PidInside(pid_t pid) const;
  // Number of open descriptors: st_size of /proc/PID/fd where the kernel sets it (6.2 and later), otherwise counted.
  absl::StatusOr<uint64_t> CountDescriptors(pid_t pid) const;
  std::vector<pid_t> ListPids() const;

 private:
  std::string root_;
};

// All of a small file; NotFound for ENOENT and ESRCH, PermissionDenied for EACCES and EPERM.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PROCFS_H_
