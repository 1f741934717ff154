// A limit that can't be read (the process or its cgroup is gone, no permission, no such file on this kernel) has no
// row; that is absence, not an error.
#include "source/limits.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "model/saturating.h"
#include "posix/open_in_root.h"
#include "source/cgroup.h"

namespace cowprof {
namespace {

// Whose limits are read, and from where.
struct Target {
  const ProcFs& proc;
  const std::string& filesystem_root;
  pid_t pid;
  const std::vector<MemoryCgroup>& cgroups;
  Holders holders;
  bool strict_accounting = false, shows_mappings = false;
};

using Rows = std::vector<LimitSample>;

constexpr char kAddressSpace[] = "Max address space", kOvercommitMode[] = "/sys/vm/overcommit_memory";

LimitKind KindOf(const MemoryCgroup& cgroup) { return cgroup.v2 ? LimitKind::kCgroupV2 : LimitKind::kCgroupV1; }

// Through the process's own root: a container has its own /dev/shm, 64 MiB by default.
void AppendShm(const Target& target, Rows* rows) {
  struct statvfs shm;
  const Fd folder = OpenFolderInRoot(target.proc.PathOf(target.pid, "root"), "dev/shm");
  if (!folder.ok() || fstatvfs(folder.fd(), &shm) != 0) return;
  // Some containers have a plain folder there: its files are page cache of a disk, not memory.
  struct statfs filesystem;
  if (fstatfs(folder.fd(), &filesystem) != 0 || filesystem.f_type != TMPFS_MAGIC) return;
  LimitSample row{LimitKind::kShm, "/dev/shm", std::nullopt, 0};
  // tmpfs mounted with size=0 is unbounded and reports 0 blocks.
  if (shm.f_blocks > 0) row.limit = uint64_t{shm.f_blocks} * shm.f_frsize;
  row.used = uint64_t{SaturatingSubtract(shm.f_blocks, shm.f_bfree)} * shm.f_frsize;
  rows->push_back(std::move(row));
  // Each file takes an inode; thousands of small tensors can exhaust inodes before bytes.
  if (shm.f_files > 0)
    rows->push_back({LimitKind::kShmInodes, "/dev/shm", shm.f_files, SaturatingSubtract(shm.f_files, shm.f_ffree)});
}

// If cowprof runs in another container than the target, only the target's mounts show its cgroups. What is mounted
// there is the target's choice, so only use what is really a cgroup.
std::vector<MemoryCgroup> CgroupsByOwnMounts(const ProcFs& proc, pid_t pid, absl::string_view own) {
  const auto mounts = proc.ReadFile(pid, "mountinfo");
  if (!mounts.ok()) return {};
  std::vector<MemoryCgroup> levels = PlanMemoryCgroups(own, *mounts);
  for (MemoryCgroup& level : levels) {
    level.directory = proc.PathOf(pid, "root") + level.directory;
    struct statfs filesystem;
    if (statfs(level.directory.c_str(), &filesystem) != 0 ||
        filesystem.f_type != (level.v2 ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC))
      return {};
  }
  return levels;
}

// nullopt: nobody can tell, since the process is exiting.
std::optional<std::vector<MemoryCgroup>> CgroupsOf(const ProcFs& proc, pid_t pid) {
  const auto own = proc.ReadFile(pid, "cgroup");
  const auto mounts = ReadSmallFile(proc.root() + "/self/mountinfo");
  if (!own.ok() || !mounts.ok()) return std::vector<MemoryCgroup>();
  // An exiting process is shown at the root of a v1 hierarchy (proc_cgroup_show) although it is charged elsewhere.
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
  if (stat.ok() && stat->is_exiting()) return std::nullopt;
  std::vector<MemoryCgroup> levels = PlanMemoryCgroups(*own, *mounts);
  return levels.empty() ? CgroupsByOwnMounts(proc, pid, *own) : levels;
}

// Innermost first. The process is charged to the first readable level; of those above, only the ones with a limit
// matter.
void AppendCgroups(const Target& target, Rows* rows) {
  bool innermost = true;
  for (const MemoryCgroup& cgroup : target.cgroups) {
    const absl::StatusOr<Count> limit = ReadMemoryLimit(cgroup, target.filesystem_root);
    if (!limit.ok() || (!innermost && !limit->has_value())) continue;
    if (!innermost && !CountsChildren(cgroup, target.filesystem_root)) continue;
    const absl::StatusOr<MemoryUse> use = ReadMemoryUse(cgroup, target.filesystem_root);
    if (!use.ok()) continue;
    rows->push_back({KindOf(cgroup), cgroup.name, *limit, use->bytes, use->failures, use->kills, use->ooms});
    innermost = false;
  }
}

void AppendHost(const Target& target, Rows* rows) {
  const auto text = ReadSmallFile(target.proc.root() + "/meminfo");
  if (!text.ok()) return;
  const HostMemory host = ParseHostMemory(*text);
  if (!host.total_bytes || !host.available_bytes) return;
  uint64_t swap = host.swap_total_bytes.value_or(0), swap_free = host.swap_free_bytes.value_or(0);
  if (swap > 0) {
    const ZramSwap zram = ParseZramSwap(ReadSmallFile(target.proc.root() + "/swaps").value_or(""));
    swap = SaturatingSubtract(swap, zram.total_bytes);
    swap_free = std::min(swap, SaturatingSubtract(swap_free, zram.free_bytes));  // another moment than meminfo's
  }
  const uint64_t arc = ParseShrinkableArc(ReadSmallFile(target.proc.root() + "/spl/kstat/zfs/arcstats").value_or(""));
  const uint64_t limit = *host.total_bytes + swap;
  const uint64_t left = SaturatingAdd(*host.available_bytes + swap_free, arc);
  rows->push_back({LimitKind::kHost, "MemTotal+SwapTotal", limit, SaturatingSubtract(limit, left)});
  if (target.strict_accounting && host.commit_limit_bytes && host.committed_bytes)
    rows->push_back({LimitKind::kCommit, "CommitLimit", host.commit_limit_bytes, *host.committed_bytes});
}

bool AccountsStrictly(const ProcFs& proc) {
  return absl::StartsWith(ReadSmallFile(proc.root() + kOvercommitMode).value_or(""), "2");
}

// Most processes have a few hundred: below a tenth of the limit it is not worth a row. One that was there stays, with
// what is used now: its last figure would stand for the rest of the recording.
void AppendMappings(const Target& target, Rows* rows) {
  uint64_t limit = 0;
  if (target.holders.mappings == 0) return;
  const auto text = ReadSmallFile(target.proc.root() + "/sys/vm/max_map_count");
  if (!text.ok() || !absl::SimpleAtoi(*text, &limit)) return;
  if (target.holders.mappings < limit / 10 && !target.shows_mappings) return;
  rows->push_back({LimitKind::kMappings, "vm.max_map_count", limit, target.holders.mappings});
}

std::optional<LimitSample> AddressSpaceOf(const ProcFs& proc, pid_t pid, absl::string_view rlimits) {
  const Count limit = ParseSoftLimit(rlimits, kAddressSpace);
  if (!limit) return std::nullopt;
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
  if (!stat.ok()) return std::nullopt;
  return LimitSample{LimitKind::kAddressSpace, "RLIMIT_AS", limit, stat->virtual_bytes};
}

// Present even if unlimited: growth of the count is interesting on its own.
std::optional<LimitSample> DescriptorsOf(const ProcFs& proc, pid_t pid, absl::string_view rlimits) {
  if (rlimits.empty()) return std::nullopt;
  const absl::StatusOr<uint64_t> used = proc.CountDescriptors(pid);
  if (!used.ok()) return std::nullopt;
  return LimitSample{LimitKind::kDescriptors, "RLIMIT_NOFILE", ParseSoftLimit(rlimits, "Max open files"), *used};
}

bool IsNearer(const LimitSample& a, const LimitSample& b) {
  return std::make_pair(a.ratio().value_or(0), a.used) > std::make_pair(b.ratio().value_or(0), b.used);
}

// Limits that each process has for itself: of the target, or of a holder that is nearer. torchrun or a shell script is
// the target, and the trainer is below it.
void AppendOfOneProcess(const Target& target, Rows* rows) {
  std::map<pid_t, std::string> rlimits;  // /proc/PID/limits, each read once
  for (const auto& [row_of, holder] : {std::pair(&AddressSpaceOf, target.holders.address_space),
                                       std::pair(&DescriptorsOf, target.holders.descriptors)}) {
    std::optional<LimitSample> nearer;
    for (const pid_t pid : {target.pid, holder}) {
      if (pid == 0 || (nearer && pid == target.pid)) continue;
      const auto [text, is_new] = rlimits.try_emplace(pid);
      if (is_new) text->second = target.proc.ReadFile(pid, "limits").value_or("");
      std::optional<LimitSample> row = row_of(target.proc, pid, text->second);
      if (row && (!nearer || IsNearer(*row, *nearer))) nearer = std::move(row);
    }
    if (nearer) rows->push_back(*std::move(nearer));
  }
}

// All limits, in display order.
constexpr void (*kLimits[])(const Target&, Rows*) = {AppendShm, AppendCgroups, AppendHost, AppendOfOneProcess,
                                                     AppendMappings};

}  // namespace

std::vector<LimitSample> Limits::RowsOf(pid_t pid, const Holders& holders,
                                        const std::vector<MemoryCgroup>& cgroups) const {
  const Target target{proc_, filesystem_root_, pid, cgroups, holders, strict_accounting_, shows_mappings_};
  Rows rows;
  for (const auto append : kLimits) append(target, &rows);
  return rows;
}

std::vector<LimitSample> Limits::Read(pid_t pid, const Holders& holders) const {
  std::vector<MemoryCgroup> cgroups = CgroupsOf(proc_, pid).value_or(last_cgroups_);
  strict_accounting_ = AccountsStrictly(proc_);
  Rows rows = RowsOf(pid, holders, cgroups);
  for (const LimitSample& row : rows) shows_mappings_ |= row.kind == LimitKind::kMappings;
  if (!cgroups.empty()) last_cgroups_ = std::move(cgroups);
  return rows;
}

// Mounts and memberships are two fifths of the cost of Read().
std::vector<LimitSample> Limits::Look(pid_t pid, const Holders& holders, absl::Duration now) {
  if (now - looked_up_ >= absl::Seconds(1)) {
    looked_up_ = now;
    cgroups_ = CgroupsOf(proc_, pid).value_or(last_cgroups_);
  }
  return RowsOf(pid, holders, cgroups_);
}

bool Limits::IsLifted(pid_t pid, const Holders& holders, const LimitSample& before) const {
  if (IsCgroup(before.kind)) {
    const auto same = [&](const MemoryCgroup& one) { return KindOf(one) == before.kind && one.name == before.name; };
    const auto cgroup = std::find_if(last_cgroups_.begin(), last_cgroups_.end(), same);
    if (cgroup == last_cgroups_.end()) return true;  // the process is in another one
    const absl::StatusOr<Count> limit = ReadMemoryLimit(*cgroup, filesystem_root_);
    return limit.ok() && !limit->has_value();
  }
  if (before.kind == LimitKind::kAddressSpace) {
    for (const pid_t one : {pid, holders.address_space}) {
      if (one == 0) continue;
      const std::string text = proc_.ReadFile(one, "limits").value_or("");
      if (!absl::StrContains(text, kAddressSpace) || ParseSoftLimit(text, kAddressSpace)) return false;
    }
    return true;
  }
  if (before.kind == LimitKind::kCommit) {
    const std::string mode = ReadSmallFile(proc_.root() + kOvercommitMode).value_or("");
    return absl::StartsWith(mode, "0") || absl::StartsWith(mode, "1");
  }
  return false;
}

std::vector<LimitSample> Limits::ReadLastCgroups() const {
  Rows rows;
  AppendCgroups({proc_, filesystem_root_, 0, last_cgroups_, {}}, &rows);
  return rows;
}

uint64_t Limits::ShmDevice(pid_t pid) const {
  const Fd folder = OpenFolderInRoot(proc_.PathOf(pid, "root"), "dev/shm");
  struct stat found;
  return folder.ok() && fstat(folder.fd(), &found) == 0 ? found.st_dev : 0;
}

bool Limits::SharesShmWithInit(pid_t pid) const {
  const uint64_t device = ShmDevice(pid);
  const auto mounts = proc_.ReadFile(1, "mountinfo");  // its root can be read by root only
  if (device == 0 || !mounts.ok()) return false;
  // "25 30 0:23 / /dev/shm rw ...". The last one hides those before it.
  bool shared = false;
  for (const absl::string_view line : absl::StrSplit(*mounts, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(' ', 5));
    if (fields.size() > 4 && fields[4] == "/dev/shm")
      shared = fields[2] == absl::StrCat(major(device), ":", minor(device));
  }
  return shared;
}

bool Limits::NameCgroup(pid_t pid, uint64_t inode, LimitSample* limit) const {
  for (const MemoryCgroup& cgroup : CgroupsOf(proc_, pid).value_or(std::vector<MemoryCgroup>())) {
    struct stat folder;
    if (stat((filesystem_root_ + cgroup.directory).c_str(), &folder) != 0 || folder.st_ino != inode) continue;
    limit->kind = KindOf(cgroup);
    limit->name = cgroup.name;
    return true;
  }
  return false;
}

}  // namespace cowprof
