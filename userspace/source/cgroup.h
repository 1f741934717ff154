// Memory cgroups, v1 and v2: which ones apply to a process, and what each allows and uses. Owns the syntax of
// /proc/PID/cgroup, of cgroup mounts in mountinfo and of the memory controller's files. Judges nothing.
#ifndef COWPROF_SOURCE_CGROUP_H_
#define COWPROF_SOURCE_CGROUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/facts/sample.h"

namespace cowprof {

// One memory cgroup between the process's own and the root, as a directory that is readable from here.
struct MemoryCgroup {
  bool v2 = false;
  std::string directory;  // "/sys/fs/cgroup/memory/job1"
  std::string name;       // "/job1", its path in the hierarchy

  bool operator==(const MemoryCgroup&) const = default;
};

// The memory cgroups of a process, innermost first, from the texts of /proc/PID/cgroup and /proc/self/mountinfo. Hybrid
// hosts have the memory controller in v1 or v2, never in both. Empty if none is mounted, or if the mounts of this mount
// namespace do not show the process's own.
std::vector<MemoryCgroup> PlanMemoryCgroups(absl::string_view proc_cgroup, absl::string_view mountinfo);

// memory.max or memory.limit_in_bytes; absent: no limit. InvalidArgument if it is neither a number nor "max".
absl::StatusOr<Count> ParseMemoryLimit(absl::string_view text);

// Reads the files of one cgroup below `filesystem_root`. NotFound if the cgroup was removed or has no such file (like
// the root of v2).
absl::StatusOr<Count> ReadMemoryLimit(const MemoryCgroup& cgroup, const std::string& filesystem_root);

// What is charged to a cgroup and those below it, and how often that hit the limit.
struct MemoryUse {
  uint64_t bytes = 0;           // what can't be reclaimed before a kill: without file pages and reclaimable slabs
  Count failures, kills, ooms;  // see LimitSample
};
absl::StatusOr<MemoryUse> ReadMemoryUse(const MemoryCgroup& cgroup, const std::string& filesystem_root);

// Whether the memory of child cgroups counts against this one's limit.
bool CountsChildren(const MemoryCgroup& cgroup, const std::string& filesystem_root);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_CGROUP_H_
