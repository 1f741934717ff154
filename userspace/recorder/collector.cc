// One tick: look for processes that came or went, read the cheap files of the living ones, pull the counters, attribute
// the copies, and read as much from the costly sources as the budget allows.
#include "recorder/collector.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "model/base_name.h"
#include "posix/clock.h"
#include "recorder/target.h"

namespace cowprof {
namespace {

constexpr absl::Duration kFirstSweepsAfter = absl::Milliseconds(50);

SweeperOptions SweeperOptionsOf(const CollectorOptions& options) {
  return {.page_bytes = options.page_bytes,
          .t0_ns = options.t0_ns,
          .sample_diverged = options.verify ? kMaxDivergedSample : 0,
          .interval = absl::Seconds(options.verify ? 1 : 5)};
}

// Returns the pid of the living process with the most of `figure`; 0: it is known of none. Rows are in the order of the
// look.
pid_t PidWithMost(Count ProcFigures::*figure, const TreeLook& look, const Sample& sample) {
  pid_t pid = 0;
  uint64_t most = 0;
  for (size_t i = 0; i < look.processes.size(); ++i) {
    const uint64_t has = (sample.processes[i].proc.*figure).value_or(0);
    if (look.processes[i].exited_ns != 0 || has <= most) continue;
    most = has;
    pid = look.processes[i].id.pid;
  }
  return pid;
}

}  // namespace

Collector::Collector(std::unique_ptr<FaultSource> faults, const ProcFs& proc, Limits limits,
                     const CollectorOptions& options)
    : options_(options),
      proc_(proc),
      faults_(std::move(faults)),
      processes_(proc),
      attribution_(proc, {.page_bytes = options.page_bytes, .causes = options.causes}, faults_.get()),
      pages_(proc, {.page_bytes = options.page_bytes, .causes = options.causes}, &processes_, &attribution_.programs()),
      rollups_(proc),
      limits_(std::move(limits)),
      shm_watch_(proc),
      fork_hazards_(proc, [this] { return Since(absl::ToInt64Nanoseconds(BootTime())); }) {
  if (options.probes) {
    sweeper_.emplace(proc, SweeperOptionsOf(options), faults_.get());
    parent_sweeps_.emplace(proc, options.page_bytes, options.t0_ns);
    gup_copies_.emplace();
  } else {
    kills_.emplace();
  }
  if (options.hangs) hangs_.emplace(proc, [this](int index) { return fork_hazards_.SnapshotOf(index); });
}

// ---- Processes ----

void Collector::Start(const FollowedProcess& process, Sample* sample) {
  const LivingProcess& living = *processes_.Find(process.id);
  const LivingProcess* parent = process.origin == Origin::kTarget ? nullptr : processes_.Find(process.parent);
  const bool inherits = living.space != living.index;
  const bool same_program = inherits || process.vforked;
  attribution_.programs().Add(process, living.index, same_program);
  sample->events.push_back({.t = process.forked_ns == 0 ? absl::ZeroDuration() : Since(process.forked_ns),
                            .index = living.index,
                            .what = ProcessStarted{.id = process.id,
                                                   .parent = parent == nullptr ? -1 : parent->index,
                                                   .space = inherits ? living.space : -1,
                                                   .origin = process.origin,
                                                   .vforked = process.vforked,
                                                   .comm = process.comm,
                                                   .command = proc_.ReadCommandLine(process.id.pid),
                                                   .executable = same_program ? "" : Executable(process.id.pid)}});
}

// Cut off as a command line is: the path is what the target's owner chose.
std::string Collector::Executable(pid_t pid) const { return proc_.ReadExecutable(pid).substr(0, kMaxCommandBytes); }

// Reads what the process runs now. The source may know better: it may have called exec again since.
void Collector::Describe(pid_t pid, ProcessExeced* execed) const {
  const std::string executable = Executable(pid);
  // What is read may end in " (deleted)", and the source cuts long names.
  if (!executable.empty() && !absl::StartsWith(BaseName(executable), execed->executable)) return;
  if (!executable.empty()) execed->executable = executable;
  execed->command = proc_.ReadCommandLine(pid);
}

void Collector::Exec(const LivingProcess& process, absl::Duration t) {
  attribution_.programs().Exec(process.id);
  pages_.Exec(process);
  if (sweeper_) sweeper_->Exec(process.serial, t);
  if (parent_sweeps_) parent_sweeps_->Forget(process.serial);
  if (gup_copies_) gup_copies_->Forget(process.serial);
  processes_.Exec(process.id);
}

void Collector::End(const FollowedProcess& process, Sample* sample) {
  const LivingProcess& living = *processes_.Find(process.id);
  sample->events.push_back(
      {.t = Since(process.exited_ns), .index = living.index, .what = ProcessExited{process.exit_status}});
  attribution_.programs().End(process.id);
  pages_.End(living);
  if (sweeper_) sweeper_->Forget(process.serial);
  if (parent_sweeps_) parent_sweeps_->Forget(process.serial);
  if (gup_copies_) gup_copies_->Forget(process.serial);
  rollups_.Forget(process.serial);
  fork_hazards_.Forget(living.index);
  processes_.End(process.id);
}

ProcessSample Collector::ReadProcess(const FollowedProcess& process, uint64_t* faults) {
  ProcessSample row = {.index = processes_.Find(process.id)->index};
  if (process.exited_ns != 0) return row;
  absl::StatusOr<ProcFigures> figures = proc_.ReadFigures(process.id, options_.page_bytes, faults);
  if (figures.ok()) {
    row.proc = *figures;
  } else if (!absl::IsNotFound(figures.status())) {
    ++unreadable_;  // a process that ended meanwhile is not a loss
  }
  return row;
}

// ---- Events ----

// Puts what happened in order of time, since a child inherits what its parent had at the fork, and runs its program.
void Collector::AddTree(TreeLook* look, Sample* sample) {
  std::stable_sort(look->events.begin(), look->events.end(),
                   [](const SeenEvent& a, const SeenEvent& b) { return a.time_ns < b.time_ns; });
  absl::Span<const SeenEvent> events = look->events;
  for (const FollowedProcess& process : look->processes) {
    const auto later = std::find_if(events.begin(), events.end(),
                                    [&](const SeenEvent& event) { return event.time_ns >= process.forked_ns; });
    AddEvents(events.subspan(0, later - events.begin()), sample);
    events.remove_prefix(later - events.begin());
    if (processes_.Add(process)) Start(process, sample);
  }
  AddEvents(events, sample);
}

void Collector::AddEvents(absl::Span<const SeenEvent> seen, Sample* sample) {
  for (const SeenEvent& one : seen) {
    const LivingProcess* process = processes_.FindSeen(one.process);
    if (process == nullptr) continue;
    Event event = one.event;
    event.t = Since(one.time_ns);
    event.index = process->index;
    if (auto* execed = event.As<ProcessExeced>()) {
      Describe(process->id.pid, execed);
      execed_.push_back(process->id);
      Exec(*process, event.t);
    }
    AddEvidence(one, &event);
    sample->events.push_back(std::move(event));
  }
}

// Resolves names while the process, or another of its lineage, can still be read.
void Collector::AddEvidence(const SeenEvent& seen, Event* event) {
  if (auto* delivered = event->As<SignalDelivered>()) {
    if (options_.causes) attribution_.programs().Locate(seen, delivered);
    if (delivered->file) delivered->file->on_dev_shm = delivered->file->device == limits_.shm_device();
  } else if (auto* victim = event->As<OomVictim>()) {
    if (victim->limit && seen.cgroup != 0) limits_.NameCgroup(seen.process.pid, seen.cgroup, &*victim->limit);
  }
}

// Clamps times, since events during the last look arrive with this one and records must stay in order. Rounds down to
// the microsecond, as in the file.
void Collector::OrderEvents(Sample* sample) {
  for (Event& event : sample->events)
    event.t = std::clamp(absl::Trunc(event.t, absl::Microseconds(1)), last_t_, sample->t);
  last_t_ = sample->t;
  std::stable_sort(sample->events.begin(), sample->events.end(),
                   [](const Event& a, const Event& b) { return a.t < b.t; });
}

// ---- The rest of a tick ----

void Collector::AddPull(const Pull& pull, Sample* sample) {
  absl::flat_hash_map<int, uint32_t> serials;  // by index
  for (const auto& [serial, of_process] : pull.counts) {
    if (const LivingProcess* process = processes_.Find(serial)) serials[process->index] = serial;
  }
  for (ProcessSample& row : sample->processes) {
    const auto serial = serials.find(row.index);
    if (serial == serials.end()) continue;
    row.counts = pull.counts.at(serial->second);
    if (const auto found = pull.mappings.find(serial->second); found != pull.mappings.end())
      row.mappings = found->second;
  }
  pages_.AddSweeps(pull.sweeps, sample);
  pull_sweep_cost_ = pull.sweep_cost;
  sample->losses = pull.losses;
}

// The counters of the sample are older than its sweeps.
void Collector::AddWhatCameLater(const TreeLook& look, Sample* sample) {
  const auto swept = [](const ProcessSample& row) { return row.sweep.has_value(); };
  if (std::none_of(sample->processes.begin(), sample->processes.end(), swept)) return;
  const absl::flat_hash_map<uint32_t, FaultCounts> counts = faults_->CountFaultsNow();
  for (size_t i = 0; i < look.processes.size(); ++i) {
    ProcessSample& row = sample->processes[i];
    const LivingProcess* process = processes_.Find(look.processes[i].serial);
    const auto now = counts.find(look.processes[i].serial);
    if (!row.sweep || process == nullptr || now == counts.end()) continue;
    const FaultCounts &then = row.counts, &later = now->second;
    if (!then.write_protect_faults || !later.write_protect_faults) continue;
    const absl::StatusOr<ProcFigures> figures = proc_.ReadFigures(process->id, options_.page_bytes);
    row.sweep->later_write_protect_faults = SaturatingSubtract(*later.write_protect_faults, *then.write_protect_faults);
    row.sweep->later_new_pages = SaturatingSubtract(later.zero_fills().value_or(0) + later.file_copies.value_or(0),
                                                    then.zero_fills().value_or(0) + then.file_copies.value_or(0));
    if (figures.ok() && figures->anon_pages)
      row.sweep->anonymous_pages = *figures->anon_pages + figures->swap_pages.value_or(0);
  }
}

// Rows are in the order of the look: parents before children. `faults`: by the kernel's count, which was read after the
// probes' counts; where it is ahead of them, they are read again.
void Collector::AddGupCopies(const TreeLook& look, const std::vector<uint64_t>& faults, Sample* sample) {
  if (!gup_copies_) return;
  std::optional<absl::flat_hash_map<uint32_t, FaultCounts>> later;
  for (size_t i = 0; i < look.processes.size(); ++i) {
    const uint32_t serial = look.processes[i].serial;
    const LivingProcess* process = processes_.Find(serial);
    const LivingProcess* parent = process == nullptr ? nullptr : processes_.ParentInSpace(*process);
    ProcessSample& row = sample->processes[i];
    uint64_t since = 0;  // that the probes have counted since row.counts
    if (row.counts.faults && faults[i] >= *row.counts.faults + gup_copies_->FaultsOf(serial) + GupCopies::kLeast) {
      if (!later) later = faults_->CountFaultsNow();
      if (const auto now = later->find(serial); now != later->end() && now->second.faults)
        since = SaturatingSubtract(*now->second.faults, *row.counts.faults);
    }
    gup_copies_->NoteFaults(serial, parent == nullptr ? 0 : parent->serial, SaturatingSubtract(faults[i], since), row);
    gup_copies_->AddTo(serial, &row);
  }
}

// Of processes that were seen forked: what an older one had copied before is not known.
void Collector::FindGupCopies(const TreeLook& look, Sample* sample) {
  for (size_t i = 0; i < look.processes.size(); ++i) {
    ProcessSample& row = sample->processes[i];
    const LivingProcess* process = processes_.Find(look.processes[i].serial);
    if (!row.sweep || process == nullptr || process->origin != Origin::kForked) continue;
    if (const LivingProcess* parent = processes_.ParentInSpace(*process))
      gup_copies_->Learn(process->serial, parent->serial, &row);
  }
}

// gosu, su-exec and sudo become another user, which not everybody may examine. One tick later: a setuid program that
// ends soon is of no interest. The page map shows no exec of those: there the target is looked at anyway.
void Collector::NoteOnUnreadable(const TreeLook& look, const Sample& sample) {
  std::vector<ProcessId> due = std::exchange(execed_before_, std::exchange(execed_, {}));
  const bool has_target = !options_.probes && !sample.processes.empty() && sample.processes.front().index == 0;
  if (has_target && !TargetIsExiting(sample)) due.push_back(look.processes.front().id);
  for (const ProcessId& id : due) {
    if (noted_unreadable_ || processes_.Find(id) == nullptr) continue;
    note_ = NoteOnPages(proc_, id.pid);
    noted_unreadable_ = !note_.empty();
  }
}

void Collector::AddLimits(const TreeLook& look, uint64_t most_mappings, Sample* sample) {
  const Holders holders = {.descriptors = PidWithMost(&ProcFigures::descriptors, look, *sample),
                           .address_space = PidWithMost(&ProcFigures::virtual_pages, look, *sample),
                           .mappings = most_mappings};
  if (target_alive()) sample->limits = limits_.Read(processes_.target(), TargetIsExiting(*sample), holders);
  if (kills_) kills_->AddVictims(target_alive() ? sample->limits : limits_.ReadLastCgroups(), sample);
}

void Collector::LookAtShm(absl::Duration interval, bool last, const TreeLook& look, Sample* sample) {
  const auto mount = std::find_if(sample->limits.begin(), sample->limits.end(),
                                  [](const LimitSample& limit) { return limit.kind == LimitKind::kShm; });
  const bool changed = std::any_of(sample->events.begin(), sample->events.end(), [](const Event& event) {
    return event.Is<ProcessStarted>() || event.Is<ProcessExited>();
  });
  const ShmTick tick = {.t = sample->t,
                        .interval = interval,
                        .target = processes_.target(),
                        .target_alive = target_alive(),
                        .last = last,
                        .mount = mount != sample->limits.end() ? &*mount : nullptr,
                        .processes_changed = changed};
  sample->shm = shm_watch_.Run(tick, [&] {
    std::vector<pid_t> followed;
    // An end is told before the memory is given back. While the target lives, the next look will do.
    for (const FollowedProcess& process : look.processes) {
      if (process.exited_ns == 0 || !target_alive()) followed.push_back(process.id.pid);
    }
    return followed;
  });
}

absl::Duration Collector::sweep_cost() const {
  const absl::Duration of_probes = sweeper_ ? sweeper_->cost() + parent_sweeps_->cost() : absl::ZeroDuration();
  return pull_sweep_cost_ + of_probes + shm_watch_.cost() + (hangs_ ? hangs_->cost() : absl::ZeroDuration());
}

absl::StatusOr<Sample> Collector::Collect(absl::Duration interval, bool last) {
  absl::StatusOr<TreeLook> look = faults_->LookAtTree(last);
  if (!look.ok()) return look.status();
  const absl::Duration t = absl::Trunc(Since(absl::ToInt64Nanoseconds(BootTime())), absl::Microseconds(1));
  Sample sample = {.t = t};
  sample.processes.reserve(look->processes.size());
  AddTree(&*look, &sample);
  std::vector<uint64_t> faults(look->processes.size());  // by the kernel's count
  for (size_t i = 0; i < faults.size(); ++i) sample.processes.push_back(ReadProcess(look->processes[i], &faults[i]));
  NoteOnUnreadable(*look, sample);
  fork_hazards_.AfterForks(processes_, attribution_.programs(), &sample);
  // A tick by an event comes early, and may cost less.
  const absl::Duration share = last ? interval : std::min(interval, t - last_t_);
  const PullRequest request = {.t = t, .interval = share, .last = last, .reader = pages_};
  absl::StatusOr<Pull> pull = faults_->PullCounts(request);
  if (!pull.ok()) return pull.status();
  AddPull(*pull, &sample);
  attribution_.Attribute(look->processes, *pull, last, &sample);
  AddGupCopies(*look, faults, &sample);
  fork_hazards_.AfterPrograms(processes_, attribution_.programs(), &sample);
  if (fork_hazards_.TakeWake(t)) faults_->WakeAtFork();
  if (start_methods_) start_methods_->Run(look->processes, processes_, &sample);
  for (const FollowedProcess& process : look->processes) {
    if (process.exited_ns != 0) End(process, &sample);
  }
  if (hangs_) hangs_->Run(processes_, &sample);
  OrderEvents(&sample);
  rollups_.Read(processes_, share, last, &sample);
  pages_.LookAtInherited(sample);
  // Probes have counted already, so their sweep waits until everything that may vanish with a process has been read,
  // and the first one until there is a sample to see. Not for --verify, which draws from what was copied by then: a
  // round right after the first copies would speak for those alone.
  const bool first = !std::exchange(swept_, true) && !last && !options_.verify;
  first_sweeps_ = first ? t + kFirstSweepsAfter : absl::InfiniteDuration();
  if (sweeper_ && !first) {
    pages_.AddSweeps(sweeper_->Run(processes_, *pull, *gup_copies_, request, sample.processes), &sample);
    parent_sweeps_->Run(processes_, *pull, request, &rollups_, &sample);
    AddWhatCameLater(*look, &sample);
    FindGupCopies(*look, &sample);
  }
  pages_.TakeRegions(&sample);
  AddLimits(*look, pull->most_mappings, &sample);
  LookAtShm(interval, last, *look, &sample);
  sample.losses.unreadable = unreadable_;
  return sample;
}

}  // namespace cowprof
