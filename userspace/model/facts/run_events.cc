#include "model/facts/run_events.h"

#include <signal.h>

#include <algorithm>
#include <tuple>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "model/facts/roles.h"

namespace cowprof {
namespace {

constexpr size_t kMostSignals = 16, kMostForkers = 256;

void StartProcess(const Event& event, const ProcessStarted& started, RunModel* model) {
  ProcessModel* const found = model->Find(event.index);
  if (found == nullptr) return;
  ProcessModel& process = *found;
  if (process.ended) {  // it is announced once more
    const auto place = std::lower_bound(model->lately.begin(), model->lately.end(), event.index);
    if (place == model->lately.end() || *place != event.index) model->lately.insert(place, event.index);
    model->settled.stale = true;
  }
  model->private_memory.erase(event.index);
  process = {.index = event.index,
             .id = started.id,
             .parent = started.parent,
             .origin = started.origin,
             .comm = started.comm,
             .command = started.command,
             .executable = started.executable,
             .vforked = started.vforked,
             .started = event.t};
  const bool inherits = started.space >= 0 && started.space < event.index;
  process.space = inherits ? started.space : event.index;
  process.program = ProgramKindOf(process);
  const ProcessModel* parent = model->Find(started.parent);
  const ProcessModel* origin = inherits ? model->Find(started.space) : nullptr;
  if (parent != nullptr && (started.origin == Origin::kForked || (inherits && parent->space == started.space))) {
    process.program = parent->program;
  } else if (origin != nullptr) {
    process.program = origin->program;
  }
  if (origin == nullptr) return;
  process.python = origin->python;
  process.python_problem = origin->python_problem;
  ProcessModel* const forker = Announced(started.parent, model);
  if (forker == nullptr) return;
  ++(started.origin == Origin::kForked ? forker->forks : forker->forks_before_attach);
  if (!forker->at_first_fork) forker->at_first_fork = {forker->counts.copies.value_or(0), forker->copies_of_files};
}

// The event names one of those that run the program; the others were forked before it was known.
void NotePython(const PythonFound& python, RunModel* model, ProcessModel* named) {
  const auto note = [&](ProcessModel* process) {
    process->python = python.version;
    process->python_problem = python.problem;
  };
  note(named);
  const ProcessModel* const first = model->Find(named->space);
  if (first == nullptr || first->forks + first->forks_before_attach == 0) return;
  for (ProcessModel& process : model->processes) {
    if (process.space == first->index) note(&process);
  }
}

void ExecProcess(const ProcessExeced& execed, RunModel* model, ProcessModel* process) {
  if (process->space != process->index && process->origin == Origin::kForked) {
    if (ProcessModel* parent = Announced(process->parent, model)) {
      parent->forks -= parent->forks > 0 ? 1 : 0;
      ++parent->forks_for_exec;
      if (parent->forks + parent->forks_before_attach == 0) parent->at_first_fork.reset();
    }
  }
  // One that was found between vfork and exec seemed to own its parent's memory: nothing tells it from a fork's child.
  if (process->space != process->index && process->origin == Origin::kFoundAtAttach)
    process->peak_private_bytes.reset();
  process->python.clear();
  process->space = process->index;
  process->regions.clear();
  process->growth.clear();
  process->python_problem.clear();
  process->comm = execed.comm;
  process->command = execed.command;
  process->executable = execed.executable;
  process->execed = true;
  process->vforked = false;
  process->program = ProgramKindOf(*process);
  process->duty = {};
  process->loader.reset();
  // What it forked before keeps the old one.
  for (ProcessModel& other : absl::MakeSpan(process + 1, &model->processes.back() + 1)) {
    if (other.space == process->index) other.space = other.index;
  }
  // A new address space: nothing inherited, everything its own. It may end before /proc shows that: what was read
  // before must not count as its own.
  model->private_memory[process->index].Exec(process->counts.copies.value_or(0));
  process->proc = {.cpu_ms = process->proc.cpu_ms, .descriptors = process->proc.descriptors};
  process->private_bytes.reset();
  process->still_shared_bytes.reset();
  process->first_anon_pages = process->first_swap_pages = 0;
  process->at_first_fork.reset();
  process->rollup.reset();
  process->sweep.reset();
  process->pss_bytes.reset();
  process->before_attach_bytes.reset();
  process->collector_on.reset();
  process->persistent.reset();
  process->framework.reset();
}

// The frames below those of a process that was forked are its parent's: they do not say how it was started, unless a
// forkserver forked it.
void NoteDuty(const DutyFound& found, const RunModel& model, ProcessModel* process) {
  const StartMethod before = process->duty.start;
  process->duty = found;
  const ProcessModel* parent = model.Find(process->parent);
  const bool forked = process->space != process->index;
  const bool served = parent != nullptr && parent->role == Role::kForkserver;
  if (forked && !(served && found.start == StartMethod::kForkserver)) process->duty.start = StartMethod::kUnknown;
  if (process->duty.start == StartMethod::kUnknown) process->duty.start = before;
}

// When a training ends Lightning removes WORLD_SIZE.
void NoteRank(const RankFacts& found, ProcessModel* process) {
  const std::optional<RankFacts> before = std::exchange(process->rank, found);
  if (before && before->source == found.source && found.source == RankSource::kLightning && !found.world_size)
    process->rank->world_size = before->world_size;
}

// What workers of a DataLoader would be sent counts more than what other processes would, and the larger more than the
// smaller, which may be that of a loader for validation. Of those equal to a tenth the one that found what fails
// counts, as a worker that ends while it is read shows the same objects with nothing confirmed; otherwise the later.
void NoteStartMethods(const Event& event, const StartMethodsSeen& seen, RunModel* model) {
  const auto weight = [](const PickleLook& look) {
    const bool fails = absl::c_any_of(look.failures, [](const PickleFailure& failure) {
      return failure.confirmed && !failure.below_unknown;  // as a verdict needs it
    });
    const uint64_t size = look.bytes.best + (fails ? look.bytes.best / 10 : 0);
    return std::tuple(!look.root.empty(), look.of_loader.value_or(false), size);
  };
  if (model->start_methods && weight(seen.look) < weight(model->start_methods->look)) return;
  model->start_methods = {event.t, event.index, seen.look};
}

void NoteForkHazard(const Event& event, const ForkHazardSeen& seen, RunModel* model) {
  SeenForkHazard& known = model->fork_hazards[event.index];
  // Those that fork and have threads are few; a hostile recording may claim otherwise.
  if (model->fork_hazards.size() > kMostForkers && model->fork_hazards.begin()->first != event.index)
    model->fork_hazards.erase(model->fork_hazards.begin());
  known.t = event.t;
  known.last = seen;
  if (!seen.locks.empty()) known.with_locks = seen;
}

// Whether a process had killed it, and not the kernel. In a cgroup that has run out, the kernel marks a process that is
// dying anyway as its victim, and sends it no signal (task_will_free_mem(), mm/oom_kill.c).
bool WasKilledByProcess(const ProcessModel& process) {
  bool by_process = false;
  for (const Event& event : process.signals) {
    const auto* sent = event.As<SignalSent>();
    if (sent == nullptr || sent->signal != SIGKILL) continue;
    if (sent->code == SI_KERNEL) return false;
    by_process = true;
  }
  return by_process;
}

void EndProcess(absl::Duration t, const ProcessExited& exited, RunModel* model, ProcessModel* process) {
  process->ended = t;
  if (exited.status) process->exit = ExitOf(*exited.status);
  if (process->exit && process->exit->signal != SIGKILL) {  // it was dying by itself already
    process->oom_victim = false;
    process->oom.reset();
  }
  process->copies_per_second = 0;
  model->private_memory[process->index].End();
  NoteEnd(model, process);
}

void AppendSignal(const Event& signal, ProcessModel* process) {
  if (process->signals.size() == kMostSignals) process->signals.erase(process->signals.begin());
  process->signals.push_back(signal);
}

}  // namespace

ProcessModel* Announced(int index, RunModel* model) {
  ProcessModel* process = model->Find(index);
  return process != nullptr && process->id.pid != 0 ? process : nullptr;
}

// Indexes are dense, but one sample may announce them in any order: makes room for all of them first.
void Announce(const Sample& sample, RunModel* model) {
  std::vector<int> indexes;
  for (const Event& event : sample.events) {
    if (event.Is<ProcessStarted>() && event.index >= model->announced) indexes.push_back(event.index);
  }
  if (indexes.empty()) return;
  std::sort(indexes.begin(), indexes.end());
  const int first = model->announced;
  for (size_t i = 0; i < indexes.size(); ++i) {
    model->processes.push_back({.index = model->is_part ? indexes[i] : first + static_cast<int>(i)});
    model->lately.push_back(model->processes.back().index);
  }
  model->announced = model->processes.back().index + 1;
}

void AppendEvent(const Event& event, RunModel* model) {
  if (const auto* started = event.As<ProcessStarted>()) return StartProcess(event, *started, model);
  ProcessModel* const process = Announced(event.index, model);
  if (process == nullptr) return;
  std::visit(Overloaded{
                 [](const ProcessStarted&) {},  // handled above: it need not be announced
                 [&](const ProcessExeced& execed) { ExecProcess(execed, model, process); },
                 [&](const ProcessExited& exited) { EndProcess(event.t, exited, model, process); },
                 [&](const SignalSent&) { AppendSignal(event, process); },
                 [&](const SignalDelivered&) { AppendSignal(event, process); },
                 [&](const OomVictim&) { process->oom_victim = !WasKilledByProcess(*process); },
                 [](const Note&) {},
                 [&](const PythonFound& python) { NotePython(python, model, process); },
                 [&](const DutyFound& found) { NoteDuty(found, *model, process); },
                 [&](const RankFound& found) { NoteRank(found.rank, process); },
                 [&](const StartMethodsSeen& seen) { NoteStartMethods(event, seen, model); },
                 [&](const StartFailed& failed) {
                   process->start_failed = failed;
                   process->start_failed_at = event.t;
                 },
                 [&](const LastErrorSeen& seen) {
                   process->last_error = seen;
                   process->last_error_at = event.t;
                 },
                 [&](const ForkHazardSeen& seen) { NoteForkHazard(event, seen, model); },
                 [&](const HangsSeen& seen) {
                   if (process->hangs.empty()) process->hangs_at = event.t;
                   process->hangs = seen.hangs;
                   for (Hang& hang : process->hangs) hang.waited -= event.t - process->hangs_at;
                 },
             },
             event.what);
}

}  // namespace cowprof
