// Looks at the tree, sweeps, counts and explains, in this order. docs/without-root.md says what is counted, and how
// certain that is.
#include "source/pagemap_faults.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "model/saturating.h"
#include "posix/clock.h"
#include "posix/fd.h"
#include "source/pagemap.h"
#include "source/pagemap_copy_counter.h"
#include "source/proc_tree.h"
#include "source/sweep_pace.h"

namespace cowprof {
namespace {

// Of copied pages that were not read, the page log tells the shape that nearly all pages have that were.
constexpr double kNearlyAll = 0.95;
constexpr size_t kEnoughRead = 20;

constexpr SweepAllowance kAllowance = {
    .interval = absl::Seconds(1), .share = 0.05, .long_share = 0.02, .last = absl::Milliseconds(500)};
constexpr absl::Duration kFullInterval = absl::Seconds(60);  // of processes without a fault

class PagemapFaults : public FaultSource {
 public:
  PagemapFaults(const PagemapOptions& options, ProcFs proc)
      : options_(options), proc_(proc), tree_(proc), sweep_(std::move(proc), options.page_bytes, options.t0_ns) {}

  absl::Status Follow(pid_t target) override { return tree_.Follow(target); }
  absl::StatusOr<TreeLook> LookAtTree(bool last) override;
  absl::StatusOr<Pull> PullCounts(const PullRequest& request) override;
  absl::StatusOr<std::vector<TouchedRegion>> PullRegions() override { return std::vector<TouchedRegion>(); }
  absl::StatusOr<std::vector<CopySiteRow>> PullCopySites() override;
  bool TakeNews(bool) override { return std::exchange(news_, false); }
  std::vector<cowprof_frame> ReadStack(uint64_t) override { return {}; }
  absl::Status LearnImage(uint32_t, uint32_t, const cowprof_image&) override { return absl::OkStatus(); }
  void ForgetImage(uint32_t) override {}
  absl::Status TrustSites(const std::vector<SiteVerdict>&) override { return absl::OkStatus(); }
  void LogPages(bool on) override { log_pages_ = on; }
  int wake_fd() const override { return tree_.wake_fd(); }
  int urgent_wake_fd() const override { return tree_.worker_wake_fd(); }

 private:
  struct CopySite {
    uint64_t copies = 0, samples = 0, squares = 0;
  };
  struct Process {
    ProcessId id;
    uint32_t parent = 0;  // serial; 0: not followed
    uint32_t space = 0;   // serial of the process whose address space it has: its own since an exec, or its parent's
    bool is_target = false;
    bool borrows = false;  // its parent's memory itself, as after vfork(2): there is nothing to sweep
    uint64_t faults = 0, faults_before = 0;
    Count copies;
    PagemapCopyCounter counter;
    uint64_t swept_faults = 0, swept_faults_before = 0;  // at the last sweep, and at the one before it
    uint64_t copy_faults = 0;                            // that the copies took which the last sweep found
    uint64_t planned_faults = 0;                         // its own and its parent's, when a sweep was last planned
    absl::Duration next_full;                            // sweep, with or without a fault
    uint64_t unexplained = 0;                            // of all
    std::vector<uint64_t> unexplained_pages;
    ParentsCopies copies_of_it;                                         // as its children see them
    std::map<std::pair<cowprof_shape, uint64_t>, CopySite> copy_sites;  // by shape and type
  };

  void Begin(const TreeMember& member);
  void NoteFork(Origin origin, Process* process);
  bool HasNotExeced(const ProcessId& id) const;
  void Exec(uint32_t serial, Process* process);
  const Process* ParentInSpace(const Process& process) const;
  void PlanSweeps(const PullRequest& request);
  std::optional<SweepJob> PlanSweep(uint32_t serial, bool has_children, const PullRequest& request);
  void CountCopies(const FinishedSweep& sweep);
  uint64_t FreeFaults(Process* process) const;
  NewCopies Tally(uint32_t serial, const FinishedSweep& sweep);
  bool HoldsItsPages(const ProcessId& id) const;
  void Explain(uint32_t serial, const std::vector<ExplainedPage>& read);
  void Log(uint32_t serial, const std::vector<uint64_t>& pages, cowprof_shape shape);
  void AddRows(uint32_t serial, Pull* pull) const;

  PagemapOptions options_;
  ProcFs proc_;
  ProcTree tree_;
  PagemapSweep sweep_;
  SweepPace pace_{kAllowance};
  absl::flat_hash_map<uint32_t, Process> processes_;  // by serial
  absl::flat_hash_map<ProcessId, uint32_t> serials_;  // of those that have not ended before the last look
  std::vector<TreeMember> members_;                   // of the last look
  // Of the last look. What called exec since is taken to have done so at once: what it forked since is more likely to
  // run the new program than the old one.
  uint64_t looked_ns_ = 0;
  std::vector<uint32_t> ended_;  // told, but their copy sites are not
  std::vector<CopiedPage> pages_;
  bool log_pages_ = false, news_ = false;
};

// ---- Processes ----

void PagemapFaults::Begin(const TreeMember& member) {
  const bool was_there = member.origin != Origin::kForked;
  const auto parent = serials_.find(member.parent);
  Process process = {.id = member.id,
                     .parent = parent == serials_.end() ? 0 : parent->second,
                     .space = member.serial,
                     .is_target = member.origin == Origin::kTarget};
  process.faults_before = was_there ? member.faults : 0;
  process.swept_faults = process.swept_faults_before = process.faults_before;
  process.counter = PagemapCopyCounter(was_there);
  if (process.parent != 0 && (!was_there || HasNotExeced(member.id)))
    process.space = processes_.at(process.parent).space;
  process.borrows = !member.execed && process.parent != 0;  // until it is known not to
  serials_[member.id] = member.serial;
  processes_.emplace(member.serial, std::move(process));
}

void PagemapFaults::NoteFork(Origin origin, Process* process) {
  const auto parent = processes_.find(process->parent);
  process->borrows = parent != processes_.end() && HasMemoryOf(proc_, parent->second.id.pid, process->id.pid);
  if (process->borrows || parent == processes_.end()) return;
  parent->second.counter.Forked();
  if (origin == Origin::kForked) parent->second.copies_of_it.clear();  // a fork shares all again
}

// After exec a process shares nothing with its parent.
void PagemapFaults::Exec(uint32_t serial, Process* process) {
  process->borrows = false;
  process->counter.Exec();
  process->copies_of_it.clear();
  process->unexplained_pages.clear();
  process->space = serial;
  process->next_full = absl::ZeroDuration();
  sweep_.Forget(serial);
}

bool PagemapFaults::HasNotExeced(const ProcessId& id) const {
  const absl::StatusOr<ProcStat> stat = proc_.ReadStat(id.pid);
  return stat.ok() && stat->has_not_execed();
}

absl::StatusOr<TreeLook> PagemapFaults::LookAtTree(bool) {
  TreeLook look;
  const auto now_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(BootTime()));
  members_ = tree_.Look();
  for (const TreeMember& member : members_) {
    const bool is_new = !processes_.contains(member.serial);
    if (is_new) Begin(member);
    Process& process = processes_.at(member.serial);
    if (process.borrows && (is_new || !(member.execed || member.ended))) NoteFork(member.origin, &process);
    process.faults = member.faults - process.faults_before;
    if (member.execed) {
      Exec(member.serial, &process);
      look.events.push_back({.process = member.id,
                             .time_ns = std::max(looked_ns_, member.id.start_ns),
                             .event = {.what = ProcessExeced{.comm = member.comm}}});
    }
    look.processes.push_back({.id = member.id,
                              .parent = member.parent,
                              .origin = member.origin,
                              .serial = member.serial,
                              .forked_ns = member.origin == Origin::kForked ? member.id.start_ns : 0,
                              .exited_ns = member.exited_ns,
                              .exit_status = member.exit_status,
                              .comm = member.comm});
  }
  // The tree finds a grandchild after all children, even younger ones. A parent and its child may share a clock tick:
  // a stable sort keeps them in order.
  std::stable_sort(look.processes.begin(), look.processes.end(),
                   [](const FollowedProcess& a, const FollowedProcess& b) { return a.forked_ns < b.forked_ns; });
  looked_ns_ = now_ns;
  return look;
}

// ---- Sweeps ----

// Whose address space it has, with what both changed since the fork; null: nobody's that is followed.
const PagemapFaults::Process* PagemapFaults::ParentInSpace(const Process& process) const {
  const auto parent = processes_.find(process.parent);
  const bool shares = parent != processes_.end() && parent->second.space == process.space;
  return shares && serials_.contains(parent->second.id) ? &parent->second : nullptr;
}

// The target is swept each round: its pages become its own without a fault when a worker ends. Others are swept if they
// or their parent had faults since the last time, and once in a while in any case.
void PagemapFaults::PlanSweeps(const PullRequest& request) {
  if (!sweep_.idle()) return;
  const bool round = pace_.BeginRound(request.t, sweep_.cost(), /*now=*/request.last);
  absl::flat_hash_set<uint32_t> parents;
  for (const TreeMember& member : members_) {
    const Process& process = processes_.at(member.serial);
    if (!process.borrows && ParentInSpace(process) != nullptr) parents.insert(process.parent);
  }
  for (const TreeMember& member : members_) {
    const Process& process = processes_.at(member.serial);
    // Between rounds only what is new: which pages it inherited is known as long as it has not copied them.
    if (process.borrows || (!round && (process.is_target || request.t < process.next_full))) continue;
    if (std::optional<SweepJob> job = PlanSweep(member.serial, parents.contains(member.serial), request))
      sweep_.Add(*std::move(job));
  }
}

// All of a process: nothing says where it wrote.
std::optional<SweepJob> PagemapFaults::PlanSweep(uint32_t serial, bool has_children, const PullRequest& request) {
  Process& process = processes_.at(serial);
  SweepJob job = {.serial = serial,
                  .process = process.id,
                  .full = true,
                  .sample_diverged = options_.sample_diverged,
                  .sharing = true,
                  .has_children = has_children};
  uint64_t faults = process.faults;
  if (const Process* parent = ParentInSpace(process)) {
    job.peer = parent->id;
    faults += parent->faults;  // what the parent copies makes pages its workers' own, too
  }
  const bool due = process.is_target || request.t >= process.next_full;
  if (!due && faults == process.planned_faults) return std::nullopt;
  process.next_full = request.t + kFullInterval;
  process.planned_faults = faults;
  job.ranges = request.reader.RangesOf(serial, request.t);
  return job;
}

absl::StatusOr<Pull> PagemapFaults::PullCounts(const PullRequest& request) {
  Pull pull;
  PlanSweeps(request);
  const absl::Duration budget = pace_.Budget(request.interval, sweep_.cost(), request.last);
  for (FinishedSweep& sweep : sweep_.Run(budget, SweepPace::Longest(request.last))) {
    CountCopies(sweep);
    std::optional<std::vector<ExplainedPage>> explained =
        request.reader.Explain(sweep.serial, processes_.at(sweep.serial).unexplained_pages, request.t);
    if (!explained && request.last) explained.emplace();
    if (explained) Explain(sweep.serial, *explained);
    sweep.sharing = {};  // counted
    pull.sweeps.push_back(std::move(sweep));
  }
  pull.sweep_cost = sweep_.cost();
  for (const TreeMember& member : members_) {
    if (member.ended) Explain(member.serial, {});
  }
  pull.pages = std::exchange(pages_, {});
  for (const TreeMember& member : members_) {
    AddRows(member.serial, &pull);
    if (!member.ended) continue;
    ended_.push_back(member.serial);
    serials_.erase(member.id);
    sweep_.Forget(member.serial);
  }
  return pull;
}

// ---- Copies ----

// A copy takes a fault. Faults count since the sweep before the last one began, less those that copies found since then
// took.
uint64_t PagemapFaults::FreeFaults(Process* process) const {
  const absl::StatusOr<ProcStat> stat = proc_.ReadStat(process->id.pid);
  const bool same = stat.ok() && stat->start_ticks == process->id.start_ticks();
  const uint64_t now = same ? stat->faults : process->faults + process->faults_before;
  const uint64_t since = SaturatingSubtract(now, process->swept_faults_before);
  process->swept_faults_before = std::exchange(process->swept_faults, now);
  return SaturatingSubtract(since, process->copy_faults);
}

bool PagemapFaults::HoldsItsPages(const ProcessId& id) const {
  const absl::StatusOr<ProcStat> stat = proc_.ReadStat(id.pid);
  return stat.ok() && stat->start_ticks == id.start_ticks() && stat->has_not_execed() && !stat->is_exiting();
}

// A sibling that let go of a page meanwhile is not a proof that this process copied it: whether the sibling still lives
// is read now, after the sweep, and only of siblings that make a difference.
NewCopies PagemapFaults::Tally(uint32_t serial, const FinishedSweep& sweep) {
  Process& process = processes_.at(serial);
  const auto parent = processes_.find(process.parent);
  ParentsCopies nobodys;
  ParentsCopies* parents = parent == processes_.end() ? &nobodys : &parent->second.copies_of_it;
  absl::flat_hash_map<uint32_t, bool> lives;
  const auto siblings = [&](uint64_t address, const PageBits& pages) {
    PageBits held;
    for (const auto& [other, sibling] : processes_) {
      if (other == serial || process.parent == 0 || sibling.parent != process.parent) continue;
      const PageBits more = sibling.counter.HoldsOfLeft(address, (*parents)[address]) & pages & ~held;
      if (more.none()) continue;
      const auto [known, is_new] = lives.try_emplace(other, false);
      if (is_new) known->second = HoldsItsPages(sibling.id);
      if (known->second) held |= more;
      if (held == pages) break;
    }
    return held;
  };
  const PagemapCopyCounter* of_parent = parent == processes_.end() ? nullptr : &parent->second.counter;
  return process.counter.Take(sweep.sharing, options_.page_bytes, FreeFaults(&process), {parents, siblings, of_parent});
}

void PagemapFaults::CountCopies(const FinishedSweep& sweep) {
  Process& process = processes_.at(sweep.serial);
  const auto parent = processes_.find(process.parent);
  const NewCopies copies = Tally(sweep.serial, sweep);
  process.copy_faults = copies.faults;
  process.unexplained += copies.own;
  process.copies = process.copies.value_or(0) + copies.own;
  process.unexplained_pages.insert(process.unexplained_pages.end(), copies.own_pages.begin(), copies.own_pages.end());
  if (parent == processes_.end()) return;
  parent->second.copies = parent->second.copies.value_or(0) + copies.parents;
  if (copies.parents > 0) parent->second.copy_sites[{COWPROF_SHAPE_UNREAD, 0}].copies += copies.parents;
  Log(process.parent, copies.parents_pages, COWPROF_SHAPE_UNREAD);
}

// ---- Causes ----

// Each page that was read stands for as many copies as any other, give or take one.
void PagemapFaults::Explain(uint32_t serial, const std::vector<ExplainedPage>& read) {
  Process& process = processes_.at(serial);
  const uint64_t copies = std::exchange(process.unexplained, 0);
  std::map<cowprof_shape, size_t> shapes;
  for (size_t i = 0; i < read.size(); ++i) {
    const uint64_t stands_for = copies / read.size() + (i < copies % read.size());
    CopySite& copy_site = process.copy_sites[{read[i].shape, read[i].type}];
    copy_site.copies += stands_for;
    ++copy_site.samples;
    copy_site.squares += stands_for * stands_for;
    ++shapes[read[i].shape];
    Log(serial, {read[i].address}, read[i].shape);
  }
  if (read.empty() && copies > 0) process.copy_sites[{COWPROF_SHAPE_UNREAD, 0}].copies += copies;
  cowprof_shape others = COWPROF_SHAPE_UNREAD;
  for (const auto& [shape, count] : shapes) {
    if (read.size() >= kEnoughRead && count >= kNearlyAll * read.size()) others = shape;
  }
  // The log keeps the first cause of a page that it is told twice.
  Log(serial, std::exchange(process.unexplained_pages, {}), others);
  news_ = true;
}

void PagemapFaults::Log(uint32_t serial, const std::vector<uint64_t>& pages, cowprof_shape shape) {
  if (!log_pages_) return;
  for (const uint64_t page : pages) pages_.push_back({serial, page, shape});
}

void PagemapFaults::AddRows(uint32_t serial, Pull* pull) const {
  const Process& process = processes_.at(serial);
  pull->counts[serial] = {.faults = process.faults, .copies = process.copies};
  for (const auto& [key, copy_site] : process.copy_sites)
    pull->causes.push_back({.serial = serial, .shape = key.first, .sampled = true, .copies = copy_site.copies});
  pull->causes.push_back({.serial = serial, .sampled = true, .copies = process.unexplained});
}

absl::StatusOr<std::vector<CopySiteRow>> PagemapFaults::PullCopySites() {
  std::vector<CopySiteRow> rows;
  for (const auto& [serial, process] : processes_) {
    const bool was_read = std::any_of(process.copy_sites.begin(), process.copy_sites.end(),
                                      [](const auto& entry) { return entry.second.samples > 0; });
    if (!was_read) continue;
    for (const auto& [key, copy_site] : process.copy_sites) {
      rows.push_back({.serial = serial,
                      .shape = key.first,
                      .type = key.second,
                      .copies = copy_site.copies,
                      .samples = copy_site.samples,
                      .squares = copy_site.squares});
    }
  }
  for (const uint32_t serial : std::exchange(ended_, {})) processes_.erase(serial);
  return rows;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FaultSource>> LoadPagemapFaults(pid_t target, const PagemapOptions& options,
                                                               ProcFs proc) {
  const pid_t pid = target != 0 ? target : getpid();
  Fd pagemap(open(proc.PathOf(pid, "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  if (!pagemap.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("open ", proc.PathOf(pid, "pagemap")));
  return std::make_unique<PagemapFaults>(options, std::move(proc));
}

}  // namespace cowprof
