// Memory cgroups, v1 and v2: which ones bind a process, and what each allows and uses. Owns the
// spelling of /proc/PID/cgroup, of the cgroup mounts in mountinfo and of the memory controller's
// files. Called by limits.cc; judges nothing.
#ifndef COWPROF_SOURCE_CGROUP_H_
#define COWPROF_SOURCE_CGROUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/sample.h"

namespace cowprof {

// One memory cgroup on the way from the process's own up to the root, as directories that can be
// read from here.
struct MemoryCgroup {
  bool v2 = false;
  std::string directory;  // "/sys/fs/cgroup/memory/job1"
  std::string name;       // "/job1", as the hierarchy has it

  bool operator==(const MemoryCgroup&) const = default;
};

// The memory cgroups of a process, innermost first, from the texts of /proc/PID/cgroup and
// /proc/self/mountinfo. Hybrid hosts have the memory controller in v1 or v2, never in both. Empty
// where none is mounted, and where the mounts of this mount namespace don't show the process's own.
std::vector<MemoryCgroup> PlanMemoryCgroups(absl::string_view proc_cgroup, absl::string_view mountinfo);

// memory.max or memory.limit_in_bytes; absent: no limit. InvalidArgument if it is neither a number
// nor "max".
absl::StatusOr<Count> ParseMemoryLimit(absl::string_view text);

// The files of one cgroup, read below `filesystem_root`. NotFound where the cgroup was removed or
// has no memory controller (as the root of v2).
absl::StatusOr<Count> ReadMemoryLimit(const MemoryCgroup& cgroup, const std::string& filesystem_root);

// What is charged to a cgroup and those below it, and what came of it.
struct MemoryUse {
  uint64_t bytes = 0;     // that the kernel can't take back before it kills: without file pages and reclaimable slabs
  Count failures, kills;  // see LimitSample
};
absl::StatusOr<MemoryUse> ReadMemoryUse(const MemoryCgroup& cgroup, const std::string& filesystem_root);

// Whether memory of the cgroups below counts against this one's limit.
bool CountsChildren(const MemoryCgroup& cgroup, const std::string& filesystem_root);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_CGROUP_H_
