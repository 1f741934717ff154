// Polls children files or, without CONFIG_PROC_CHILDREN, the parent of every process.
#include "source/proc_tree.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

// A leader that called pthread_exit() is a zombie while its other threads keep running.
bool HasEnded(const ProcStat& stat) { return stat.state == 'X' || (stat.state == 'Z' && stat.threads <= 1); }

// Needs neither a new descriptor nor memory, unlike a look at /proc.
bool HasEnded(const Fd& pidfd) {
  pollfd end = {pidfd.fd(), POLLIN, 0};
  return pidfd.ok() && poll(&end, 1, 0) == 1;
}

// include/uapi/linux/pidfd.h; has the exit status of a reaped process since Linux 6.15.
struct PidfdInfo {
  uint64_t mask, cgroup;
  uint32_t ids[11];
  int32_t exit_status;
};
constexpr uint64_t kInfoExit = 1 << 3;

std::optional<int> ExitStatusOf(const Fd& pidfd) {
  PidfdInfo info = {.mask = kInfoExit};
  if (!pidfd.ok() || ioctl(pidfd.fd(), _IOWR(0xFF, 11, PidfdInfo), &info) != 0) return std::nullopt;
  return info.mask & kInfoExit ? std::optional<int>(info.exit_status) : std::nullopt;
}

void Watch(const Fd& ends, const Fd& pidfd) {
  epoll_event readable = {.events = EPOLLIN, .data = {}};
  if (pidfd.ok()) epoll_ctl(ends.fd(), EPOLL_CTL_ADD, pidfd.fd(), &readable);  // once more changes nothing
}

void AppendPids(const std::string& text, std::vector<pid_t>* pids) {
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipWhitespace())) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(word, &pid) && pid > 0) pids->push_back(pid);
  }
}

}  // namespace

ProcTree::ProcTree(ProcFs proc)
    : proc_(std::move(proc)), ends_(epoll_create1(EPOLL_CLOEXEC)), worker_ends_(epoll_create1(EPOLL_CLOEXEC)) {
  const std::string self = absl::StrCat("task/", getpid(), "/children");
  lists_children_ = proc_.ReadFile(getpid(), self).ok();
}

std::vector<pid_t> ProcTree::ChildrenOf(pid_t pid) const {
  std::vector<pid_t> children;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(proc_.PathOf(pid, "task"), gone))
    AppendPids(ReadSmallFile(thread.path().string() + "/children").value_or(""), &children);
  return children;
}

ProcTree::Known* ProcTree::Add(pid_t pid, const ProcessId& parent, Origin origin) {
  const absl::StatusOr<ProcStat> stat = proc_.ReadStat(pid);
  if (!stat.ok()) return nullptr;
  Known known;
  known.member = {.id = {pid, stat->start_ns()},
                  .parent = parent,
                  .origin = origin,
                  .serial = ++last_serial_,
                  .comm = stat->comm,
                  .faults = stat->faults};
  known.may_exec = stat->has_not_execed();
  known.member.execed = origin == Origin::kForked && !known.may_exec;  // since the last look
  known.stack_start = stat->stack_start;
  known.may_look = stat->stack_start != 0;
  known.pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  // The pid may have been reused in between: then the pidfd is the new owner's, whose end must not be taken for ours.
  const absl::StatusOr<ProcStat> again = proc_.ReadStat(pid);
  if (!again.ok() || again->start_ticks != stat->start_ticks) known.pidfd.Close();
  if (!HasEnded(*stat)) Watch(ends_, known.pidfd);
  members_.push_back(std::move(known));
  return &members_.back();
}

absl::Status ProcTree::Follow(pid_t target) {
  Known* known = Add(target, {}, Origin::kTarget);
  if (known == nullptr) return absl::NotFoundError(absl::StrCat("no process ", target));
  Refresh(known);
  if (known->member.ended) return absl::NotFoundError("it has just ended");
  Discover(Origin::kFoundAtAttach);
  return absl::OkStatus();
}

void ProcTree::Refresh(Known* known) const {
  TreeMember& member = known->member;
  const absl::StatusOr<ProcStat> stat = proc_.ReadStat(member.id.pid);
  // No descriptors or no memory left, say: that is not an end.
  if (!stat.ok() && !absl::IsNotFound(stat.status()) && !HasEnded(known->pidfd)) return;
  const bool same = stat.ok() && stat->start_ticks == member.id.start_ticks();
  if (same) member.faults = std::max(member.faults, stat->faults);
  if (!same || HasEnded(*stat)) {
    member.ended = true;
    member.exited_ns = absl::ToInt64Nanoseconds(BootTime());
    // Without permission a zombie's exit status reads as 0.
    if (same && (known->may_look || stat->exit_status != 0)) member.exit_status = stat->exit_status;
    if (!same) member.exit_status = ExitStatusOf(known->pidfd);
    return;
  }
  // The kernel places the stack anew at each exec. It moves twice within one, so a look in between (some 50 µs) reports
  // that exec twice.
  const bool moved = stat->stack_start != 0 && known->stack_start != 0 && stat->stack_start != known->stack_start;
  const bool first = known->may_exec && !stat->has_not_execed();
  member.execed |= moved || first;
  member.comm = stat->comm;
  known->may_exec = stat->has_not_execed();
  if (known->may_exec) {
    Watch(worker_ends_, known->pidfd);
  } else if (first) {
    epoll_ctl(worker_ends_.fd(), EPOLL_CTL_DEL, known->pidfd.fd(), nullptr);
  }
  if (stat->stack_start != 0) known->stack_start = stat->stack_start;
  // It may run a setuid program next.
  if (!stat->is_exiting()) known->may_look = stat->stack_start != 0;
}

// Adds children of all members, including those just found. Not those of an orphan's new parent.
void ProcTree::Discover(Origin origin) {
  absl::erase_if(zombies_, [&](const ProcessId& id) {
    const absl::StatusOr<ProcStat> stat = proc_.ReadStat(id.pid);
    return stat.ok() ? stat->start_ticks != id.start_ticks() : absl::IsNotFound(stat.status());
  });
  absl::flat_hash_set<ProcessId> followed = zombies_;
  for (const Known& known : members_) followed.insert(known.member.id);
  absl::flat_hash_map<pid_t, std::vector<pid_t>> by_parent;
  if (!lists_children_) {
    for (const pid_t pid : proc_.ListPids()) {
      if (const absl::StatusOr<ProcStat> stat = proc_.ReadStat(pid); stat.ok()) by_parent[stat->parent].push_back(pid);
    }
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].member.ended) continue;
    const ProcessId parent = members_[i].member.id;
    for (const pid_t pid : lists_children_ ? ChildrenOf(parent.pid) : by_parent[parent.pid]) {
      if (pid == getpid()) continue;  // a target may have started cowprof itself
      const absl::StatusOr<ProcStat> stat = proc_.ReadStat(pid);
      if (!stat.ok() || stat->parent != parent.pid) continue;
      if (!followed.insert({pid, stat->start_ns()}).second) continue;
      if (Known* known = Add(pid, parent, origin)) {
        if (HasEnded(*stat)) Refresh(known);
      }
    }
  }
}

std::vector<TreeMember> ProcTree::Look() {
  for (Known& known : members_) {
    known.member.execed = false;
    Refresh(&known);
  }
  Discover(Origin::kForked);
  std::vector<TreeMember> told;
  for (const Known& known : members_) {
    told.push_back(known.member);
    if (known.member.ended) zombies_.insert(known.member.id);
  }
  std::erase_if(members_, [](const Known& known) { return known.member.ended; });
  return told;
}

bool HasMemoryOf(const ProcFs& proc, pid_t parent, pid_t child) {
  constexpr int kMostLooks = 3;  // while other threads of the parent allocate or free
  const auto read = [&](pid_t pid) { return ParseStatus(proc.ReadFile(pid, "status").value_or("")); };
  for (int i = 0; i < kMostLooks; ++i) {
    const ProcStatus before = read(parent), own = read(child), after = read(parent);
    const auto fits = [&](Count ProcStatus::*figure) {
      const Count a = before.*figure, b = after.*figure, now = own.*figure;
      return a && b && now && std::min(*a, *b) <= *now && *now <= std::max(*a, *b);
    };
    if (fits(&ProcStatus::anon_bytes) && fits(&ProcStatus::file_bytes) && fits(&ProcStatus::shmem_bytes)) return true;
    if (before.anon_bytes == after.anon_bytes && before.file_bytes == after.file_bytes) break;
  }
  return false;
}

std::vector<pid_t> FamilyOf(const ProcFs& proc, pid_t pid) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t other : proc.ListPids()) {
    const absl::StatusOr<ProcStat> stat = proc.ReadStat(other);
    if (stat.ok()) children.emplace(stat->parent, other);
  }
  std::vector<pid_t> family = {pid};
  for (size_t i = 0; i < family.size(); ++i) {
    const auto [begin, end] = children.equal_range(family[i]);
    for (auto child = begin; child != end; ++child) family.push_back(child->second);
  }
  return family;
}

}  // namespace cowprof
