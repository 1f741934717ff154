// Reads limits, remembers cgroups, and completes the names of those that a probe saw.
#include "recorder/target_limits.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

constexpr size_t kMostCgroups = 256;  // that are remembered by name

}  // namespace

std::vector<LimitSample> TargetLimits::Read(pid_t target, bool exiting, const Holders& holders) {
  holders_ = holders;
  std::vector<LimitSample> limits = limits_.Read(target, holders);
  // Remember cgroups: the kernel reports the root for a process that is about to end.
  for (const LimitSample& limit : limits) {
    const auto same = [&](const LimitSample& known) { return known.name == limit.name; };
    if (IsCgroup(limit.kind) && cgroups_seen_.size() < kMostCgroups && absl::c_none_of(cgroups_seen_, same))
      cgroups_seen_.push_back(limit);
  }
  if (const uint64_t device = limits_.ShmDevice(target); device != 0) shm_device_ = device;
  if (exiting) return limits;
  for (const LimitSample& before : std::exchange(last_, limits)) {
    const auto same = [&](const LimitSample& now) { return now.key() == before.key(); };
    if (!before.limit || absl::c_any_of(limits, same)) continue;
    if (!limits_.IsLifted(target, holders, before)) {
      last_.push_back(before);
      continue;
    }
    limits.push_back(before);
    limits.back().limit.reset();
  }
  return limits;
}

void TargetLimits::NameCgroup(pid_t process, uint64_t inode, LimitSample* limit) const {
  if (limits_.NameCgroup(process, inode, limit)) return;
  // The process is gone. All cgroups of a host are of one version; look for the name in the paths of known ones.
  for (const LimitSample& known : cgroups_seen_) {
    limit->kind = known.kind;
    // A cgroup above a known one may have got its limit just now.
    absl::string_view path = known.name;
    while (!path.empty() && !absl::EndsWith(path, absl::StrCat("/", limit->name)))
      path = path.substr(0, std::min(path.rfind('/'), path.size() - 1));
    if (path.empty()) continue;
    limit->name = std::string(path);
    return;
  }
}

}  // namespace cowprof
