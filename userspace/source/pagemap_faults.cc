// See pagemap_faults.h. What is counted, and how sure that is, stands in docs/without-root.md.
#include "source/pagemap_faults.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "posix/clock.h"
#include "posix/fd.h"
#include "source/copy_tally.h"
#include "source/pagemap.h"
#include "source/proc_tree.h"

namespace cowprof {
namespace {

// Of the pages of a sweep that were not read themselves, the map shows the cause that nearly all of those have that
// were.
constexpr double kNearlyAll = 0.95;
constexpr size_t kEnoughRead = 20;

// include/linux/sched.h: PF_EXITING is set before the memory is given back; PF_FORKNOEXEC is gone after an exec.
constexpr unsigned kExiting = 0x4, kForkNoExec = 0x40;

class PagemapFaults : public FaultSource {
 public:
  PagemapFaults(uint64_t page_bytes, ProcFs proc) : page_bytes_(page_bytes), proc_(proc), tree_(std::move(proc)) {}

  absl::Status Follow(pid_t target) override { return tree_.Follow(target); }
  absl::StatusOr<Pull> PullCounts() override;
  absl::StatusOr<std::vector<TouchedRegion>> PullRegions() override { return std::vector<TouchedRegion>(); }
  absl::StatusOr<std::vector<PlaceRow>> PullPlaces() override;
  bool TakeNews(bool) override { return std::exchange(news_, false); }
  std::vector<cowprof_frame> ReadStack(uint64_t) override { return {}; }
  absl::Status LearnImage(uint32_t, uint32_t, const cowprof_image&) override { return absl::OkStatus(); }
  void ForgetImage(uint32_t) override {}
  absl::Status TrustSites(const std::vector<SiteVerdict>&) override { return absl::OkStatus(); }
  void LogPages(bool on) override { log_pages_ = on; }
  int wake_fd() const override { return tree_.wake_fd(); }

  bool counts_by_sweep() const override { return true; }
  std::vector<uint64_t> TakeSweep(uint32_t serial, const FinishedSweep& sweep) override;
  void Explain(uint32_t serial, const std::vector<ExplainedPage>& pages) override;
  void AddSwept(Pull* pull) override;

 private:
  struct Place {
    uint64_t copies = 0, samples = 0, squares = 0;
  };
  struct Process {
    ProcessId id;
    uint32_t parent = 0;  // serial; 0: not followed
    uint64_t faults = 0, faults_before = 0;
    Count copies;
    CopyTally tally;
    uint64_t swept_faults = 0, swept_faults_before = 0;  // at the last sweep, and at the one before it
    uint64_t copy_faults = 0;                            // that the copies took which the last sweep found
    uint64_t unexplained = 0;                            // of all
    std::vector<uint64_t> unexplained_pages;
    ParentsCopies copies_of_it;                                  // as its children see them
    std::map<std::pair<cowprof_shape, uint64_t>, Place> places;  // by shape and type
  };

  void Begin(const TreeMember& member);
  uint64_t FreeFaults(Process* process) const;
  NewCopies Tally(uint32_t serial, const FinishedSweep& sweep);
  bool HoldsItsPages(const ProcessId& id) const;
  void Log(uint32_t serial, const std::vector<uint64_t>& pages, cowprof_shape shape);

  uint64_t page_bytes_;
  ProcFs proc_;
  ProcTree tree_;
  absl::flat_hash_map<uint32_t, Process> processes_;  // by serial
  absl::flat_hash_map<ProcessId, uint32_t> serials_;
  std::vector<uint32_t> ended_;  // told, but their places are not
  std::vector<CopiedPage> pages_;
  bool log_pages_ = false, news_ = false;
};

void PagemapFaults::Begin(const TreeMember& member) {
  const bool was_there = member.origin != Origin::kForked;
  const auto parent = serials_.find(member.parent);
  Process process = {.id = member.id, .parent = parent == serials_.end() ? 0 : parent->second};
  process.faults_before = was_there ? member.faults : 0;
  process.swept_faults = process.swept_faults_before = process.faults_before;
  process.tally = CopyTally(was_there);
  if (!member.execed && process.parent != 0) {
    Process& forked = processes_.at(process.parent);
    forked.tally.Forked();
    if (!was_there) forked.copies_of_it.clear();  // a fork shares all again
  }
  serials_[member.id] = member.serial;
  processes_.emplace(member.serial, std::move(process));
}

absl::StatusOr<Pull> PagemapFaults::PullCounts() {
  Pull pull;
  for (const TreeMember& member : tree_.Look()) {
    if (!processes_.contains(member.serial)) Begin(member);
    Process& process = processes_.at(member.serial);
    process.faults = member.faults - process.faults_before;
    if (member.execed) {
      process.tally.Exec();
      process.copies_of_it.clear();
      process.unexplained_pages.clear();
      const auto now_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(BootTime()));
      pull.events.push_back({.process = member.id, .time_ns = now_ns, .event = {.kind = EventKind::kExec}});
      pull.events.back().event.comm = member.comm;
    }
    pull.processes.push_back({.id = member.id,
                              .parent = member.parent,
                              .origin = member.origin,
                              .serial = member.serial,
                              .forked_ns = member.origin == Origin::kForked ? member.id.start_ns : 0,
                              .exited_ns = member.exited_ns,
                              .exit_status = member.exit_status,
                              .comm = member.comm,
                              .counts = {.faults = process.faults, .copies = process.copies}});
  }
  return pull;
}

// A copy takes a fault. Those of the time since the sweep before the last one began count, less what they were spent
// on.
uint64_t PagemapFaults::FreeFaults(Process* process) const {
  const absl::StatusOr<ProcStat> stat = proc_.ReadStat(process->id.pid);
  const bool same = stat.ok() && stat->start_ticks == process->id.start_ticks();
  const uint64_t now = same ? stat->faults : process->faults + process->faults_before;
  const uint64_t since = now - std::min(now, process->swept_faults_before);
  process->swept_faults_before = std::exchange(process->swept_faults, now);
  return since - std::min(since, process->copy_faults);
}

bool PagemapFaults::HoldsItsPages(const ProcessId& id) const {
  const absl::StatusOr<ProcStat> stat = proc_.ReadStat(id.pid);
  return stat.ok() && stat->start_ticks == id.start_ticks() && (stat->flags & (kExiting | kForkNoExec)) == kForkNoExec;
}

// A sibling that let go of a page meanwhile is no proof that this process copied it: whether it still lives is asked
// now, after the look, and only of those that it depends on.
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
      const PageBits more = sibling.tally.HoldsOfLeft(address, (*parents)[address]) & pages & ~held;
      if (more.none()) continue;
      const auto [known, is_new] = lives.try_emplace(other, false);
      if (is_new) known->second = HoldsItsPages(sibling.id);
      if (known->second) held |= more;
      if (held == pages) break;
    }
    return held;
  };
  const CopyTally* of_parent = parent == processes_.end() ? nullptr : &parent->second.tally;
  return process.tally.Take(sweep.sharing, page_bytes_, FreeFaults(&process), {parents, siblings, of_parent});
}

std::vector<uint64_t> PagemapFaults::TakeSweep(uint32_t serial, const FinishedSweep& sweep) {
  const auto found = processes_.find(serial);
  if (found == processes_.end()) return {};
  Process& process = found->second;
  const auto parent = processes_.find(process.parent);
  const NewCopies copies = Tally(serial, sweep);
  process.copy_faults = copies.faults;
  process.unexplained += copies.own;
  process.copies = process.copies.value_or(0) + copies.own;
  process.unexplained_pages.insert(process.unexplained_pages.end(), copies.own_pages.begin(), copies.own_pages.end());
  if (parent != processes_.end()) {
    parent->second.copies = parent->second.copies.value_or(0) + copies.parents;
    if (copies.parents > 0) parent->second.places[{COWPROF_SHAPE_UNREAD, 0}].copies += copies.parents;
    Log(process.parent, copies.parents_pages, COWPROF_SHAPE_UNREAD);
  }
  return process.unexplained_pages;
}

// Each page that was read stands for as many copies as any other, give or take one.
void PagemapFaults::Explain(uint32_t serial, const std::vector<ExplainedPage>& read) {
  const auto found = processes_.find(serial);
  if (found == processes_.end()) return;
  Process& process = found->second;
  const uint64_t copies = std::exchange(process.unexplained, 0);
  std::map<cowprof_shape, size_t> shapes;
  for (size_t i = 0; i < read.size(); ++i) {
    const uint64_t stands_for = copies / read.size() + (i < copies % read.size());
    Place& place = process.places[{read[i].shape, read[i].type}];
    place.copies += stands_for;
    ++place.samples;
    place.squares += stands_for * stands_for;
    ++shapes[read[i].shape];
    Log(serial, {read[i].address}, read[i].shape);
  }
  if (read.empty() && copies > 0) process.places[{COWPROF_SHAPE_UNREAD, 0}].copies += copies;
  cowprof_shape others = COWPROF_SHAPE_UNREAD;
  for (const auto& [shape, count] : shapes) {
    if (read.size() >= kEnoughRead && count >= kNearlyAll * read.size()) others = shape;
  }
  // A page that is told twice has the cause that was told first.
  Log(serial, std::exchange(process.unexplained_pages, {}), others);
  news_ = true;
}

void PagemapFaults::Log(uint32_t serial, const std::vector<uint64_t>& pages, cowprof_shape shape) {
  if (!log_pages_) return;
  for (const uint64_t page : pages) pages_.push_back({serial, page, shape});
}

void PagemapFaults::AddSwept(Pull* pull) {
  for (const FollowedProcess& followed : pull->processes) {
    if (followed.exited_ns != 0) Explain(followed.serial, {});
  }
  pull->pages = std::exchange(pages_, {});
  for (FollowedProcess& followed : pull->processes) {
    Process& process = processes_.at(followed.serial);
    followed.counts.copies = process.copies;
    for (const auto& [key, place] : process.places)
      pull->causes.push_back({.serial = followed.serial, .shape = key.first, .copies = place.copies});
    pull->causes.push_back({.serial = followed.serial, .copies = process.unexplained});
    if (followed.exited_ns == 0) continue;
    ended_.push_back(followed.serial);
    serials_.erase(followed.id);
  }
}

absl::StatusOr<std::vector<PlaceRow>> PagemapFaults::PullPlaces() {
  std::vector<PlaceRow> rows;
  for (const auto& [serial, process] : processes_) {
    const bool was_read = std::any_of(process.places.begin(), process.places.end(),
                                      [](const auto& entry) { return entry.second.samples > 0; });
    if (!was_read) continue;
    for (const auto& [key, place] : process.places) {
      rows.push_back({.serial = serial,
                      .shape = key.first,
                      .type = key.second,
                      .copies = place.copies,
                      .samples = place.samples,
                      .squares = place.squares});
    }
  }
  for (const uint32_t serial : std::exchange(ended_, {})) processes_.erase(serial);
  return rows;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FaultSource>> LoadPagemapFaults(pid_t target, uint64_t page_bytes, ProcFs proc) {
  const pid_t pid = target != 0 ? target : getpid();
  Fd pagemap(open(proc.PathOf(pid, "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  if (!pagemap.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("open ", proc.PathOf(pid, "pagemap")));
  return std::make_unique<PagemapFaults>(page_bytes, std::move(proc));
}

}  // namespace cowprof
