// One readdir() a scan tells who is new: proc_pid_readdir() of the kernel gives the inode with the pid, so that a
// reused pid shows without a system call a process. Where memory is short the kernel reclaims inodes, and gives a
// process that lives another one: then its start time decides.
#include "watch/process_scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "model/base_name.h"
#include "posix/clock.h"
#include "python/duty.h"
#include "python/interpreter.h"
#include "python/process_memory.h"
#include "source/environment.h"

namespace cowprof {
namespace {

constexpr absl::Duration kMostCpu = absl::Milliseconds(20);  // of a scan; the looks that are left wait for the next
// A process executes another program, or sets up its workers, soon after its start, if at all.
constexpr absl::Duration kShortestGap = absl::Seconds(2), kLongestGap = absl::Seconds(30);
constexpr int kMostLooksAtFrames = 6;
constexpr int kDeepest = 128;

// A client of tmux or ssh has the pattern in its command line as well, and is no ancestor of watch.
constexpr absl::string_view kWatchWords = "cowprof watch ";

bool IsPythonName(absl::string_view name) { return absl::StartsWith(name, "python") || absl::StartsWith(name, "pypy"); }

absl::flat_hash_set<ProcessId> AncestorsOf(pid_t pid, const ProcFs& proc) {
  absl::flat_hash_set<ProcessId> ancestors;
  for (int i = 0; i < kDeepest && pid > 0; ++i) {
    const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
    if (!stat.ok()) break;
    ancestors.insert({pid, stat->start_ns()});
    pid = stat->parent;
  }
  return ancestors;
}

}  // namespace

ProcessScan::ProcessScan(ScanSettings settings, std::function<void(pid_t)> looking, ProcFs proc)
    : settings_(std::move(settings)),
      looking_(std::move(looking)),
      proc_(std::move(proc)),
      ancestors_(AncestorsOf(settings_.self, proc_)),
      folder_(opendir(proc_.root().c_str()), closedir) {}

void ProcessScan::List(absl::Duration now) {
  ++scans_;
  if (folder_ == nullptr) return;
  rewinddir(folder_.get());
  while (const dirent* found = readdir(folder_.get())) {
    pid_t pid = 0;
    if (found->d_name[0] < '1' || found->d_name[0] > '9' || !absl::SimpleAtoi(found->d_name, &pid)) continue;
    Entry& entry = entries_[pid];
    if (entry.inode != found->d_ino && (entry.start_ns == 0 || entry.start_ns != StartOf(pid))) {
      entry = {.first = now, .next_look = now + absl::Milliseconds(1)};
      if (scans_ > 1) settings_.avoid.erase(pid);
      if (settings_.avoid.contains(pid)) entry.start_ns = StartOf(pid);
    }
    entry.inode = found->d_ino;
    entry.scan = scans_;
  }
  absl::erase_if(entries_, [&](const auto& entry) { return entry.second.scan != scans_; });
}

uint64_t ProcessScan::StartOf(pid_t pid) const {
  const absl::StatusOr<ProcStat> stat = proc_.ReadStat(pid);
  return stat.ok() ? stat->start_ns() : 0;
}

// Whether an ancestor is a root already: then it does not matter what this process is.
bool ProcessScan::BelowRoot(const SeenProcess& process) const {
  pid_t parent = process.parent;
  for (int i = 0; i < kDeepest; ++i) {
    if (roots_.contains(parent)) return true;
    const auto found = entries_.find(parent);
    if (found == entries_.end() || !found->second.seen) return false;
    parent = found->second.seen->parent;
  }
  return false;
}

void ProcessScan::LookAtPython(pid_t pid, Entry* entry, SeenProcess* process) {
  const std::string environment = proc_.ReadHead(pid, "environ", kMaxEnvironmentBytes);
  const RankSource source = RankFactsOf(ParseEnvironment(environment)).source;
  // Lightning's first rank starts the others, and its own environment does not say so: the root is found by its
  // workers.
  process->ranked = source != RankSource::kNone && source != RankSource::kLightning;
  const auto parent = entries_.find(process->parent);
  const bool of_python = parent != entries_.end() && parent->second.seen && parent->second.seen->python;
  if (process->ranked || !of_python || BelowRoot(*process) || entry->looks_at_frames == kMostLooksAtFrames) return;
  ++entry->looks_at_frames;
  ProgramFiles files;
  const ProcessMemory memory(pid, proc_, &files);
  const absl::StatusOr<Interpreter> interpreter = FindInterpreter(proc_, pid, memory);
  if (!interpreter.ok()) return;
  const std::optional<DutyFrame> duty = FindWork(*interpreter, memory).duty;
  if (!duty) return;
  process->duty = duty->found.duty;
  process->start = duty->found.start;
  if (process->duty != Duty::kUnknown) entry->looks_at_frames = kMostLooksAtFrames;
}

void ProcessScan::Look(pid_t pid, absl::Duration now, Entry* entry) {
  entry->next_look = now + std::clamp((now - entry->first) / 4, kShortestGap, kLongestGap);
  const SeenProcess before = entry->seen.value_or(SeenProcess{});
  entry->seen.reset();
  SeenProcess process;
  process.python = IsPythonName(BaseName(proc_.ReadExecutable(pid)));
  if (settings_.match) {
    const std::string command = proc_.ReadCommandLine(pid);
    process.matches = settings_.match->Matches(command) && !absl::StrContains(command, kWatchWords);
  }
  if (!process.python && !process.matches) return;
  const absl::StatusOr<ProcStat> stat = proc_.ReadStat(pid);
  struct stat owner;
  if (!stat.ok() || stat->state == 'Z' || stat->is_exiting() || ::stat(proc_.PathOf(pid, "").c_str(), &owner) != 0)
    return;
  process.id = {pid, stat->start_ns()};
  if (entry->start_ns == 0) entry->start_ns = process.id.start_ns;
  if (ancestors_.contains(process.id)) process.matches = false;
  process.parent = stat->parent;
  process.user = owner.st_uid;
  process.execed = !stat->has_not_execed();
  if (process.id == before.id) process.was = before.was;
  if (process.execed == before.execed) {  // what a process is for does not change once it is known
    process.duty = before.duty;
    process.start = before.start;
  }
  if (process.python) LookAtPython(pid, entry, &process);
  entry->seen = process;
}

std::vector<Root> ProcessScan::Scan(absl::Duration now) {
  List(now);
  std::vector<std::pair<absl::Duration, pid_t>> due;
  for (const auto& [pid, entry] : entries_) {
    if (entry.next_look <= now && !settings_.avoid.contains(pid) && pid != settings_.self)
      due.emplace_back(entry.next_look, pid);
  }
  std::sort(due.begin(), due.end());
  const absl::Duration began = ReadClock(CLOCK_PROCESS_CPUTIME_ID);
  for (const auto& [when, pid] : due) {
    if (ReadClock(CLOCK_PROCESS_CPUTIME_ID) - began > kMostCpu) break;
    looking_(pid);
    Look(pid, now, &entries_[pid]);
  }
  looking_(0);
  std::vector<SeenProcess> seen;
  for (const auto& [pid, entry] : entries_) {
    if (entry.seen && entry.seen->parent != settings_.self) seen.push_back(*entry.seen);
  }
  std::vector<Root> roots = FindRoots(seen);
  roots_.clear();
  for (const Root& root : roots) {
    roots_.insert(root.id.pid);
    entries_[root.id.pid].seen->was = root.why;
  }
  return roots;
}

}  // namespace cowprof
