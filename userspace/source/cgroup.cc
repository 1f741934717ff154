// Maps the process's path in the hierarchy onto a mount of that hierarchy, and reads the files there. Both texts are
// seen through cowprof's own cgroup and mount namespaces: what is outside of them is left out, never guessed.
#include "source/cgroup.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "model/saturating.h"
#include "source/procfs.h"

namespace cowprof {
namespace {

// v1 writes "no limit" as LONG_MAX rounded down to whole pages, slightly below 2^63 and dependent on the page size. No
// machine has 2^62 bytes.
constexpr uint64_t kNoLimitFromBytes = uint64_t{1} << 62;
// The longest path that the kernel prints in /proc/PID/cgroup; bounds the number of levels.
constexpr size_t kMaxPathBytes = 4096;

struct MemoryFiles {
  absl::string_view limit, usage;
  // Keys of memory.stat whose bytes can be reclaimed; the first is required. Shared memory is in neither list: reclaim
  // treats it as anonymous (mm/vmscan.c).
  std::array<absl::string_view, 3> reclaimable;
  absl::string_view failures_file, failures_key;  // "": the file is the number
  absl::string_view kills_file, kills_key;
  absl::string_view ooms_key;  // in `kills_file`; "": there is none
};
// total_* include child cgroups, as the usage does. v1's usage includes slabs, its statistics do not list them.
constexpr MemoryFiles kV1 = {"memory.limit_in_bytes",
                             "memory.usage_in_bytes",
                             {"total_inactive_file", "total_active_file", ""},
                             "memory.failcnt",
                             "",
                             "memory.oom_control",
                             "oom_kill",
                             ""};
constexpr MemoryFiles kV2 = {"memory.max",
                             "memory.current",
                             {"inactive_file", "active_file", "slab_reclaimable"},
                             "memory.events",
                             "max",
                             "memory.events",
                             "oom_kill",
                             "oom"};

// Where a process is: a path in the hierarchy that has the memory controller.
struct Membership {
  bool v2 = false;
  absl::string_view path;
};

// One mount of that hierarchy. `root` is the cgroup it shows: "/" but in containers.
struct CgroupMount {
  std::string root, point;
};

// Lines are "4:cpu,memory:/path" (v1) and "0::/path" (v2). The path may contain colons, but no newline. If memory is
// listed under v1, that is where it is, even if v2 is mounted as well.
std::optional<Membership> FindMembership(absl::string_view proc_cgroup) {
  std::optional<Membership> found;
  for (absl::string_view line : absl::StrSplit(proc_cgroup, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/") || parts[2].size() > kMaxPathBytes) {
      continue;
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (std::count(controllers.begin(), controllers.end(), "memory") > 0) {
      return Membership{false, parts[2]};
    }
    if (parts[0] == "0" && parts[1].empty()) found = Membership{true, parts[2]};
  }
  return found;
}

// mountinfo escapes space, tab, newline and backslash as three octal digits.
std::string Unescape(absl::string_view text) {
  const auto octal = [&text](size_t i) { return text[i] >= '0' && text[i] <= '7'; };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 3 >= text.size() || !octal(i + 1) || !octal(i + 2) || !octal(i + 3)) {
      plain.push_back(text[i]);
      continue;
    }
    const int code = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
    plain.push_back(static_cast<char>(code));
    i += 3;
  }
  return plain;
}

// "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
std::optional<CgroupMount> ParseMount(absl::string_view line, bool v2) {
  // Skip other mounts quickly; a container host has hundreds of them.
  if (!absl::StrContains(line, " - cgroup")) return std::nullopt;
  const std::pair<absl::string_view, absl::string_view> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
  const std::vector<absl::string_view> mount = absl::StrSplit(halves.first, ' ');
  const std::vector<absl::string_view> what = absl::StrSplit(halves.second, ' ');
  if (mount.size() < 6 || what.size() < 3 || what[0] != (v2 ? "cgroup2" : "cgroup")) {
    return std::nullopt;
  }
  const std::vector<absl::string_view> options = absl::StrSplit(what[2], ',');
  if (!v2 && std::count(options.begin(), options.end(), "memory") == 0) return std::nullopt;
  return CgroupMount{Unescape(mount[3]), Unescape(mount[4])};
}

// The part of `path` below `root`, "" for the root itself; nullopt if the mount does not show it. A path outside our
// cgroup namespace starts with "/..", which does not exist in the mount.
std::optional<absl::string_view> PathBelow(absl::string_view root, absl::string_view path) {
  root = absl::StripSuffix(root, "/");
  if (!absl::ConsumePrefix(&path, root)) return std::nullopt;
  if (!path.empty() && path[0] != '/') return std::nullopt;
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  if (std::count(parts.begin(), parts.end(), "..") > 0) return std::nullopt;
  return path == "/" ? "" : path;
}

// The mount that shows the most levels above the process; among equals the last, which hides earlier ones at the same
// mount point.
std::optional<CgroupMount> FindMount(absl::string_view mountinfo, const Membership& own) {
  std::optional<CgroupMount> best;
  for (absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    std::optional<CgroupMount> mount = ParseMount(line, own.v2);
    if (!mount || !PathBelow(mount->root, own.path)) continue;
    if (!best || mount->root.size() <= best->root.size()) best = std::move(mount);
  }
  return best;
}

absl::StatusOr<std::string> ReadCgroupFile(const MemoryCgroup& cgroup, absl::string_view file,
                                           const std::string& filesystem_root) {
  return ReadSmallFile(absl::StrCat(filesystem_root, cgroup.directory, "/", file));
}

// The number after "key " at the beginning of a line; if `key` is "", the number that is the whole text.
Count ValueOf(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    uint64_t value = 0;
    if (!absl::ConsumePrefix(&line, key) || (!key.empty() && !absl::ConsumePrefix(&line, " "))) continue;
    return absl::SimpleAtoi(line, &value) ? Count(value) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::vector<MemoryCgroup> PlanMemoryCgroups(absl::string_view proc_cgroup, absl::string_view mountinfo) {
  const std::optional<Membership> own = FindMembership(proc_cgroup);
  if (!own) return {};
  const std::optional<CgroupMount> mount = FindMount(mountinfo, *own);
  if (!mount) return {};
  absl::string_view below = *PathBelow(mount->root, own->path);
  std::vector<MemoryCgroup> levels;
  while (true) {
    levels.push_back({own->v2, absl::StrCat(mount->point, below),
                      below.empty() ? mount->root : absl::StrCat(absl::StripSuffix(mount->root, "/"), below)});
    if (below.empty()) return levels;
    below = below.substr(0, below.rfind('/'));
  }
}

absl::StatusOr<Count> ParseMemoryLimit(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text == "max") return Count();
  if (text.empty() || !std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) {
    return absl::InvalidArgumentError("parse memory limit: neither a number nor \"max\"");
  }
  uint64_t bytes = 0;
  // Digits that do not fit are effectively no limit.
  if (!absl::SimpleAtoi(text, &bytes) || bytes >= kNoLimitFromBytes) return Count();
  return Count(bytes);
}

absl::StatusOr<Count> ReadMemoryLimit(const MemoryCgroup& cgroup, const std::string& filesystem_root) {
  const absl::StatusOr<std::string> text = ReadCgroupFile(cgroup, cgroup.v2 ? kV2.limit : kV1.limit, filesystem_root);
  if (!text.ok()) return text.status();
  return ParseMemoryLimit(*text);
}

absl::StatusOr<MemoryUse> ReadMemoryUse(const MemoryCgroup& cgroup, const std::string& filesystem_root) {
  const MemoryFiles& files = cgroup.v2 ? kV2 : kV1;
  const absl::StatusOr<std::string> text = ReadCgroupFile(cgroup, files.usage, filesystem_root);
  if (!text.ok()) return text.status();
  const absl::StatusOr<std::string> stat = ReadCgroupFile(cgroup, "memory.stat", filesystem_root);
  if (!stat.ok()) return stat.status();
  uint64_t usage = 0, reclaimable = 0;
  if (!absl::SimpleAtoi(*text, &usage)) {
    return absl::InvalidArgumentError("parse memory usage: not a number");
  }
  if (!ValueOf(*stat, files.reclaimable[0])) {
    return absl::InvalidArgumentError("parse memory.stat: no inactive_file");
  }
  for (const absl::string_view key : files.reclaimable) {
    // Saturate: a sum beyond 2^64 can't be right.
    const uint64_t bytes = ValueOf(*stat, key).value_or(0);
    reclaimable += std::min(bytes, std::numeric_limits<uint64_t>::max() - reclaimable);
  }
  const std::string kills = ReadCgroupFile(cgroup, files.kills_file, filesystem_root).value_or("");
  const std::string failures = files.failures_file == files.kills_file
                                   ? kills
                                   : ReadCgroupFile(cgroup, files.failures_file, filesystem_root).value_or("");
  // Both are summed over CPUs at different times, so the part may exceed the whole.
  return MemoryUse{SaturatingSubtract(usage, reclaimable), ValueOf(failures, files.failures_key),
                   ValueOf(kills, files.kills_key), cgroup.v2 ? ValueOf(kills, files.ooms_key) : std::nullopt};
}

// Until Linux 5.11 a v1 cgroup could exclude its children (memory.use_hierarchy 0).
bool CountsChildren(const MemoryCgroup& cgroup, const std::string& filesystem_root) {
  if (cgroup.v2) return true;
  const absl::StatusOr<std::string> text = ReadCgroupFile(cgroup, "memory.use_hierarchy", filesystem_root);
  return !text.ok() || absl::StripAsciiWhitespace(*text) != "0";
}

}  // namespace cowprof
