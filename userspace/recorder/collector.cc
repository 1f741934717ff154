// One tick: pull the counters, note who came and who went, read the cheap files of the living, and as much of the
// costly truth as the budget allows.
#include "collector.h"

#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr double kRollupShare = 0.004;  // of one CPU

constexpr size_t kMostCgroups = 256;  // that are remembered by name
constexpr absl::Duration kShortestGapOfPages = absl::Milliseconds(100);

absl::StatusOr<RollupFigures> TimedRollup(const ProcFs& proc, pid_t pid, absl::Duration t) {
  const absl::Duration before = BootTime();
  absl::StatusOr<RollupFigures> rollup = proc.ReadRollup(pid);
  if (rollup.ok()) {
    rollup->t = t;
    rollup->cost = BootTime() - before;
  }
  return rollup;
}

// PF_FORKNOEXEC: it was forked and has not called exec since.
bool HasNotExeced(const ProcFs& proc, pid_t pid) {
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
  return stat.ok() && (stat->flags & 0x40) != 0;
}

bool IsCgroup(const LimitSample& limit) {
  return limit.kind == LimitKind::kCgroupV1 || limit.kind == LimitKind::kCgroupV2;
}

Event ProcessEvent(const FollowedProcess& process, int index, int parent, absl::Duration t, std::string command) {
  Event event = {.t = t, .kind = EventKind::kProcess, .index = index};
  event.id = process.id;
  event.parent = parent;
  event.origin = process.origin;
  event.comm = process.comm;
  event.command = std::move(command);
  return event;
}

}  // namespace

Collector::Collector(std::unique_ptr<FaultSource> faults, ProcFs proc, Limits limits, const CollectorOptions& options)
    : faults_(std::move(faults)),
      proc_(proc),
      limits_(std::move(limits)),
      options_(options),
      sweep_(proc, options.page_bytes, options.t0_ns),
      shm_watch_(proc),
      attribution_(proc, faults_.get()),
      spaces_(proc) {
  faults_->LogPages(true);
}

Collector::Tracked& Collector::Track(const FollowedProcess& process, absl::Duration t, Sample* sample) {
  auto [found, is_new] = living_.try_emplace(process.id);
  Tracked& tracked = found->second;
  if (!is_new) return tracked;
  const auto parent = living_.find(process.parent);
  const bool by_probes = process.origin == Origin::kForked && !faults_->counts_by_sweep();
  tracked = {.index = next_index_++,
             .serial = process.serial,
             .id = process.id,
             .parent = process.parent,
             .origin = process.origin,
             .next_rollup = process.origin == Origin::kForked ? t + options_.rollup_interval : t,
             // What was there before the probes may have copied long ago: only a look at all of it tells.
             .next_full_sweep = by_probes ? t + options_.full_sweep_interval : t};
  const bool inherits = parent != living_.end() && process.origin != Origin::kTarget &&
                        (process.origin == Origin::kForked || HasNotExeced(proc_, process.id.pid));
  tracked.space = inherits ? parent->second.space : tracked.index;
  if (tracked.index == 0) target_ = process.id.pid;
  attribution_.Add(process, tracked.index, inherits);
  const absl::Duration started = process.forked_ns == 0 ? absl::ZeroDuration() : Since(process.forked_ns);
  const int parent_index = parent == living_.end() || process.origin == Origin::kTarget ? -1 : parent->second.index;
  sample->events.push_back(
      ProcessEvent(process, tracked.index, parent_index, started, proc_.ReadCommandLine(process.id.pid)));
  sample->events.back().space = tracked.space == tracked.index ? -1 : tracked.space;
  return tracked;
}

void Collector::End(const FollowedProcess& process, const Tracked& tracked, Sample* sample) {
  Event event = {.t = Since(process.exited_ns), .kind = EventKind::kExit, .index = tracked.index};
  event.status = process.exit_status;
  sample->events.push_back(std::move(event));
  if (tracked.index == 0) target_alive_ = false;
  sweep_.Forget(tracked.index);
  spaces_.Forget(tracked.index);
  verifier_.Forget(tracked.index);
  copied_bytes_.Forget(tracked.id);
}

void Collector::AddEvents(const std::vector<SeenEvent>& seen, Sample* sample) {
  for (const SeenEvent& one : seen) {
    Event event = one.event;
    event.t = Since(one.time_ns);
    const auto is_it = [&](const auto& entry) {
      return one.process.start_ns == 0 ? entry.first.pid == one.process.pid : entry.first == one.process;
    };
    const auto tracked = std::find_if(living_.begin(), living_.end(), is_it);
    if (tracked == living_.end()) continue;
    event.index = tracked->second.index;
    if (event.kind == EventKind::kExec) {
      event.command = proc_.ReadCommandLine(one.process.pid);
      sweep_.Forget(event.index);
      attribution_.Exec(one.process);
      tracked->second.next_full_sweep = event.t;
      tracked->second.space = event.index;
      spaces_.Forget(event.index);
      verifier_.Forget(event.index);
      copied_bytes_.Forget(one.process);
    }
    AddEvidence(one, &event);
    sample->events.push_back(std::move(event));
  }
}

// Names are made while the process, or one of its family, still is there to ask.
void Collector::AddEvidence(const SeenEvent& seen, Event* event) {
  if (event->kind == EventKind::kSignalDelivered && options_.causes) attribution_.Locate(seen, event);
  if (event->file) event->file->on_dev_shm = event->file->device == shm_device_;
  if (event->limit && seen.cgroup != 0) NameCgroup(seen, &*event->limit);
}

// Where the victim is gone already: by the cgroups of the target, as long as that lived. A host has one version of
// them.
void Collector::NameCgroup(const SeenEvent& seen, LimitSample* limit) const {
  if (limits_.NameCgroup(seen.process.pid, seen.cgroup, limit)) return;
  for (const LimitSample& known : cgroups_seen_) {
    limit->kind = known.kind;
    // One above it may have got its limit just now.
    absl::string_view path = known.name;
    while (!path.empty() && !absl::EndsWith(path, absl::StrCat("/", limit->name)))
      path = path.substr(0, std::min(path.rfind('/'), path.size() - 1));
    if (path.empty()) continue;
    limit->name = std::string(path);
    return;
  }
}

ProcessSample Collector::ReadProcess(const FollowedProcess& process, Tracked* tracked) {
  ProcessSample out = {.index = tracked->index, .counts = process.counts};
  const FaultCounts& counts = process.counts;
  tracked->own_pages = counts.copies.value_or(0) + counts.zero_fills().value_or(0) + counts.file_copies.value_or(0);
  if (faults_->counts_by_sweep()) tracked->own_pages = counts.faults.value_or(0);  // none without a fault
  if (process.exited_ns != 0) return out;
  absl::StatusOr<ProcFigures> figures = proc_.ReadFigures(process.id, options_.page_bytes);
  if (figures.ok()) {
    out.proc = *figures;
    tracked->anon_pages = figures->anon_pages.value_or(0);
    tracked->file_pages = figures->file_pages.value_or(0) + figures->shmem_pages.value_or(0);
  } else if (!absl::IsNotFound(figures.status())) {
    ++unreadable_;  // a process that ended meanwhile is no loss
  }
  return out;
}

void Collector::ReadRollups(absl::Duration t, absl::Duration budget, bool last, Sample* sample) {
  absl::flat_hash_map<int, Tracked*> due;  // by index
  for (auto& [id, tracked] : living_) {
    if (last || t >= tracked.next_rollup) due[tracked.index] = &tracked;
  }
  for (ProcessSample& process : sample->processes) {
    const auto found = due.find(process.index);
    if (found == due.end() || !process.proc.anon_pages) continue;
    Tracked& tracked = *found->second;
    const double pages = tracked.anon_pages + tracked.file_pages;
    if (absl::Nanoseconds(pages * rollup_ns_per_page_) > options_.longest_stall) continue;
    // On a busy host the wall clock says more than it cost.
    const absl::Duration cpu_before = ReadClock(CLOCK_THREAD_CPUTIME_ID);
    absl::StatusOr<RollupFigures> rollup = TimedRollup(proc_, tracked.id.pid, t);
    if (!rollup.ok()) continue;
    const double cpu_ns = absl::ToDoubleNanoseconds(ReadClock(CLOCK_THREAD_CPUTIME_ID) - cpu_before);
    if (pages > 1000) rollup_ns_per_page_ = 0.8 * rollup_ns_per_page_ + 0.2 * cpu_ns / pages;
    process.rollup = *rollup;
    tracked.next_rollup = t + options_.rollup_interval;
    budget -= rollup->cost;
    if (budget <= absl::ZeroDuration()) return;  // the others wait for the next tick
  }
}

// Where the first copies of a worker lie is not known from what was there before the data was loaded.
void Collector::LookAtInherited(const Sample& sample) {
  for (const auto& [id, tracked] : living_) {
    const auto announces = [index = tracked.index](const Event& event) {
      return event.kind == EventKind::kProcess && event.index == index;
    };
    const bool is_new = std::any_of(sample.events.begin(), sample.events.end(), announces);
    if (!is_new || tracked.space == tracked.index) continue;
    spaces_.Forked(tracked.space, sample.t);
    RangesOf(tracked, sample.t);
    const std::shared_ptr<Program> program = attribution_.ProgramOf(id);
    const std::optional<HeadLayout> heads = program == nullptr ? std::nullopt : program->Heads();
    if (heads && program->python() == Program::Python::kReadable)
      spaces_.LookForHeads(tracked.space, id.pid, *heads, program->Types());
  }
}

// Places are told at longer and longer intervals, so that a recording of hours keeps its size: after t seconds about
// every t/20.
void Collector::Attribute(const Pull& pull, absl::Duration t, bool last, Sample* sample) {
  extra_ticks_ += absl::ToDoubleSeconds(t - std::exchange(last_attributed_, t)) * kExtraTicksPerSecond;
  extra_ticks_ = std::min(extra_ticks_, kMostExtraTicks);
  const bool again = extra_ticks_ >= 1, news = faults_->TakeNews(again);
  if (again && (news || t >= attribution_.next_urgent_look())) extra_ticks_ -= 1;
  for (Event& event : options_.causes ? attribution_.Learn(pull.processes, t) : std::vector<Event>()) {
    event.t = t;
    sample->events.push_back(std::move(event));
  }
  attribution_.Judge(pull, sample);
  attribution_.LogPages(pull, &page_log_);
  attribution_.ReadCollectors(pull.processes, t, sample);
  attribution_.ReadPersistence(pull.processes, t, sample);
  // What a process copied is told with its end, and what was kept of it can go. After a kill there may be no next time.
  absl::flat_hash_set<int> ended;
  bool tell = last || t >= next_places_;
  for (const FollowedProcess& process : pull.processes) {
    if (process.exited_ns == 0) continue;
    ended.insert(living_[process.id].index);
    tell |= process.id.pid == target_ || (process.exit_status && WIFSIGNALED(*process.exit_status));
  }
  if (news || tell || !ended.empty()) attribution_.ReadPlaces();
  // Sooner than places, since they cost nothing: a forecast lives on them, and of young workers it is to be made soon.
  const bool forked = std::any_of(sample->events.begin(), sample->events.end(), [](const Event& event) {
    return event.kind == EventKind::kProcess && event.origin == Origin::kForked;
  });
  if (forked) {
    last_fork_ = t;
    next_pages_ = std::min(next_pages_, t + kShortestGapOfPages);
  }
  if (tell || !ended.empty() || t >= next_pages_) {
    sample->pages = page_log_.Take();
    next_pages_ = t + std::clamp((t - last_fork_) / 20, kShortestGapOfPages, absl::Seconds(30));
  }
  if (tell || !ended.empty()) attribution_.TellPlaces(tell ? nullptr : &ended, sample);
  if (!tell) return;
  if (page_log_.full() && std::exchange(logging_pages_, false)) {
    faults_->LogPages(false);
    sample->events.push_back({.t = t, .kind = EventKind::kNote});
    sample->events.back().text = absl::StrCat("the map of copied pages ends here, after ", PageLog::kMostPages,
                                              " pages; copies are counted and explained as before");
  }
  next_places_ = t + std::clamp(t / 20, absl::Milliseconds(500), absl::Seconds(30));
}

absl::Duration Collector::next_extra_tick() const {
  if (extra_ticks_ < 1) return absl::InfiniteDuration();
  return attribution_.next_urgent_look() + absl::Nanoseconds(options_.t0_ns);
}

void Collector::LookAtShm(absl::Duration interval, bool last, Sample* sample) {
  const auto mount = std::find_if(sample->limits.begin(), sample->limits.end(),
                                  [](const LimitSample& limit) { return limit.kind == LimitKind::kShm; });
  const bool changed = std::any_of(sample->events.begin(), sample->events.end(), [](const Event& event) {
    return event.kind == EventKind::kProcess || event.kind == EventKind::kExit;
  });
  const ShmTick tick = {.t = sample->t,
                        .interval = interval,
                        .target = target_,
                        .target_alive = target_alive_,
                        .last = last,
                        .mount = mount != sample->limits.end() ? &*mount : nullptr,
                        .processes_changed = changed};
  sample->shm = shm_watch_.Run(tick, [&] {
    std::vector<pid_t> followed;
    for (const auto& [id, tracked] : living_) followed.push_back(id.pid);
    return followed;
  });
}

absl::StatusOr<Sample> Collector::Collect(absl::Duration interval, bool last) {
  absl::StatusOr<Pull> pull = faults_->PullCounts();
  if (!pull.ok()) return pull.status();
  // To the microsecond, as the file has it.
  const absl::Duration t = absl::Trunc(Since(absl::ToInt64Nanoseconds(BootTime())), absl::Microseconds(1));
  Sample sample = {.t = t};
  sample.processes.reserve(pull->processes.size());
  std::vector<std::pair<const FollowedProcess*, Tracked>> ended;
  for (const FollowedProcess& process : pull->processes) {
    Tracked& tracked = Track(process, t, &sample);
    sample.processes.push_back(ReadProcess(process, &tracked));
    if (process.exited_ns != 0) ended.emplace_back(&process, tracked);
  }
  AddEvents(pull->events, &sample);
  // Copies come first where they come from the sweep.
  const bool counting = faults_->counts_by_sweep();
  const auto sweep = [&] {
    PlanSweeps(t, last);
    RunSweep(interval, last, &*pull, &sample);
  };
  if (counting) sweep();
  Attribute(*pull, t, last, &sample);
  for (const auto& [process, tracked] : ended) {
    End(*process, tracked, &sample);
    attribution_.End(process->id);
    living_.erase(process->id);
  }
  // What happened while the last pull was read comes with this one; records stay in the order of time.
  for (Event& event : sample.events) event.t = std::clamp(absl::Trunc(event.t, absl::Microseconds(1)), last_t_, t);
  last_t_ = t;
  std::stable_sort(sample.events.begin(), sample.events.end(),
                   [](const Event& a, const Event& b) { return a.t < b.t; });
  ReadRollups(t, interval * kRollupShare, last, &sample);
  LookAtInherited(sample);
  if (!counting) sweep();
  spaces_.Take(&sample);
  if (target_alive_) sample.limits = limits_.Read(target_);
  if (counting) AddOomVictims(&sample);
  LookAtShm(interval, last, &sample);
  // Those seen before stay: a process that is about to end is said to be in the root.
  for (const LimitSample& limit : sample.limits) {
    const auto same = [&](const LimitSample& known) { return known.name == limit.name; };
    if (IsCgroup(limit) && cgroups_seen_.size() < kMostCgroups && absl::c_none_of(cgroups_seen_, same))
      cgroups_seen_.push_back(limit);
  }
  if (const uint64_t device = limits_.ShmDevice(target_); device != 0) shm_device_ = device;
  sample.losses = pull->losses;
  sample.losses.unreadable = unreadable_;
  return sample;
}

}  // namespace cowprof
