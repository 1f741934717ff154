#include "model/facts/roles.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "model/base_name.h"
#include "model/facts/ended_aggregate.h"

namespace cowprof {
namespace {

constexpr int kDeepest = 64;  // wrappers around wrappers

// A shell shares its memory with every subshell, and that is nobody's data.
bool IsShell(absl::string_view executable) {
  constexpr absl::string_view kShells[] = {"sh",  "bash", "dash", "zsh",  "ksh", "mksh",
                                           "ash", "yash", "fish", "tcsh", "csh", "busybox"};
  const absl::string_view name = BaseName(executable);
  return std::any_of(std::begin(kShells), std::end(kShells), [&](absl::string_view shell) { return name == shell; });
}

bool IsForked(const ProcessModel& process) {
  return !process.execed && (process.origin == Origin::kForked || process.space != process.index);
}

// ---- By the command line, as multiprocessing (3.6 to 3.14) and multiprocess make it (popen_*.py) ----

bool IsServerByCommand(const ProcessModel& process) {
  return absl::StrContains(process.command, "from multiprocessing.forkserver import") ||
         absl::StrContains(process.command, "from multiprocess.forkserver import");
}

bool IsTracker(const ProcessModel& process) {
  if (process.duty.duty != Duty::kUnknown) return process.duty.duty == Duty::kTracker;
  for (const absl::string_view module : {"multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker",
                                         "multiprocess.resource_tracker", "loky.backend.resource_tracker"}) {
    if (absl::StrContains(process.command, absl::StrCat(module, " import main"))) return true;
  }
  return false;
}

bool IsTorchManager(const ProcessModel& process) {
  return absl::StartsWith(process.comm, "torch_shm_mana") || BaseName(process.executable) == "torch_shm_manager";
}

StartMethod StartByCommand(const ProcessModel& process, const ProcessModel* parent) {
  if (IsForked(process))
    return parent != nullptr && parent->role == Role::kForkserver ? StartMethod::kForkserver : StartMethod::kUnknown;
  if (absl::StrContains(process.command, "--multiprocessing-fork")) return StartMethod::kSpawn;
  if (absl::StrContains(process.command, "loky.backend.popen_loky")) return StartMethod::kLoky;
  // Recordings of old versions do not say who was forked before the attach.
  const bool served = process.origin == Origin::kFoundAtAttach && process.executable.empty() && parent != nullptr &&
                      IsServerByCommand(process) && IsServerByCommand(*parent);
  return served ? StartMethod::kForkserver : StartMethod::kUnknown;
}

bool IsForkserver(const ProcessModel& process) {
  if (IsForked(process) || process.duty.start == StartMethod::kForkserver) return false;
  return process.duty.duty == Duty::kForkserver || (process.duty.duty == Duty::kUnknown && IsServerByCommand(process));
}

// ---- Ranks ----

bool IsSameRank(const RankFacts* a, const RankFacts& b) {
  return a != nullptr && a->source == b.source && a->rank == b.rank && (b.rank || a->local_rank == b.local_rank);
}

// The process that started it, without the shells in between. nullptr: it is not recorded.
const ProcessModel* StarterOf(const ProcessModel& process, const RunModel& model) {
  const ProcessModel* starter = model.Find(process.parent);
  for (int i = 0; i < kDeepest && starter != nullptr && starter->role == Role::kHelper; ++i)
    starter = model.Find(starter->parent);
  return starter;
}

// A trainer that a launcher started: the outermost program with this rank. Its children inherit the rank.
bool IsRank(const ProcessModel& process, const RunModel& model) {
  const Duty duty = process.duty.duty;
  if (duty == Duty::kTrainer) return true;
  if (duty != Duty::kUnknown || !process.rank || process.rank->source == RankSource::kNone) return false;
  const ProcessModel* starter = StarterOf(process, model);
  return starter != nullptr && !IsSameRank(RankOf(*starter, model), *process.rank);
}

Role RoleOf(const ProcessModel& process, const RunModel& model) {
  if (process.index == 0) return Role::kParent;
  if (IsTracker(process) || IsTorchManager(process) || process.duty.duty == Duty::kManager ||
      process.program == ProgramKind::kShell) {
    return Role::kHelper;
  }
  if (process.vforked) return Role::kHelper;  // it is about to run a program, and shares nothing with its parent
  if (IsForkserver(process)) return Role::kForkserver;
  if (IsRank(process, model)) return Role::kRank;
  if (process.program == ProgramKind::kUnseen) return Role::kOther;
  const Role worker = process.duty.duty == Duty::kPool ? Role::kPool : Role::kWorker;
  if (process.duty.start != StartMethod::kUnknown || IsForked(process)) return worker;
  if (process.execed || !process.executable.empty()) return Role::kOther;
  // Recordings of old versions have nothing better of a process that was found at the attach.
  const ProcessModel* parent = model.Find(process.parent);
  return parent != nullptr && parent->command == process.command ? worker : Role::kOther;
}

// ---- Generations ----

bool IsOneOfASet(const ProcessModel& process) { return process.role == Role::kWorker || process.role == Role::kPool; }

// A set is over when all of its workers have ended. `ends`: those of this sample, which have not been applied yet.
void JoinSet(const std::map<int, absl::Duration>& ends, RunModel* model, ProcessModel* process) {
  WorkerSets& sets = model->worker_sets[process->parent];
  std::erase_if(sets.living, [&](int index) {
    const ProcessModel* member = model->Find(index);
    const auto end = ends.find(index);
    if (member == nullptr) return true;
    return member->ended ? *member->ended <= process->started : end != ends.end() && end->second <= process->started;
  });
  if (sets.living.empty()) sets = {.last = sets.last + 1, .earlier_ids = std::move(sets.ids)};
  sets.living.insert(process->index);
  ++sets.members;
  process->generation = sets.last;
}

// It was about to call exec.
void LeaveSet(RunModel* model, ProcessModel* process) {
  WorkerSets& sets = model->worker_sets[process->parent];
  sets.living.erase(process->index);
  if (process->generation == sets.last && --sets.members == 0) --sets.last;
  process->generation = -1;
}

// CPython's subprocess forks, and a child whose exec fails ends with 255. Until then it runs C code, which took at most
// 31 faults; a child that runs Python takes 200 just by coming back from the fork, and so does one with a preexec_fn,
// which can't be told from a worker. Measured with CPython 3.11 only, which uses vfork where it can; 3.6 to 3.9 always
// fork.
bool FailedToExec(const ProcessModel& process) {
  constexpr absl::Duration kAtOnce = absl::Seconds(1);
  constexpr uint64_t kFewCopies = 100;  // pages: between the two
  return process.exit && !process.exit->signaled && process.exit->code == 255 && !process.python.empty() &&
         process.origin == Origin::kForked && IsForked(process) && process.duty.duty == Duty::kUnknown &&
         !process.loader && *process.ended - process.started < kAtOnce &&
         process.counts.copies.value_or(kFewCopies) < kFewCopies;
}

// Two workers of a DataLoader with the same number are of two sets, even where the second set starts before the first
// one has ended.
void NoteNumber(RunModel* model, ProcessModel* process) {
  const auto sets_of = model->worker_sets.find(process->parent);
  if (sets_of == model->worker_sets.end() || process->generation < 0) return;
  WorkerSets& sets = sets_of->second;
  const uint64_t id = process->loader->worker_id;
  const auto taken = [&](const std::map<uint64_t, int>& ids) {
    const auto other = ids.find(id);
    return other != ids.end() && other->second < process->index;
  };
  if (process->generation == sets.last && !taken(sets.ids)) {
    sets.ids.emplace(id, process->index);
  } else if (process->generation == sets.last) {
    sets = {.last = sets.last + 1, .earlier_ids = std::move(sets.ids)};
    for (ProcessModel& other : model->processes) {
      if (other.parent != process->parent || other.index < process->index || other.generation != sets.last - 1)
        continue;
      other.generation = sets.last;
      ++sets.members;
      if (!other.ended) sets.living.insert(other.index);
    }
    sets.ids.emplace(id, process->index);
  } else if (process->generation == sets.last - 1 && taken(sets.earlier_ids) && !sets.ids.contains(id)) {
    process->generation = sets.last;
    ++sets.members;
    if (!process->ended) sets.living.insert(process->index);
    sets.ids.emplace(id, process->index);
  }
}

// The rank that it is, or that it works for.
const ProcessModel* TrainerOf(const ProcessModel& process, const RunModel& model) {
  const ProcessModel* one = &process;
  for (int i = 0; i < kDeepest && one != nullptr && !IsTrainer(*one, model); ++i) one = model.Find(one->parent);
  return one != nullptr && IsTrainer(*one, model) ? one : nullptr;
}

// Lightning's own launcher: the first rank starts the others. Not torch.multiprocessing.spawn's, whose processes may
// set such variables: there the target does not train.
void NoteRankOfTarget(RunModel* model) {
  const ProcessModel* target = model->Find(0);
  const RankFacts* own = target == nullptr || model->is_part ? nullptr : RankOf(*target, *model);
  if (own == nullptr || own->source != RankSource::kLightning) return;
  bool others = false, spawned = false;
  ForEachLately(*model, [&](const ProcessModel& process) {
    if (process.role != Role::kRank || process.ended) return;
    spawned |= process.duty.duty == Duty::kTrainer;
    others |= process.rank && process.rank->source == RankSource::kLightning;
  });
  if (others || spawned) model->target_is_rank = !spawned;
}

}  // namespace

ProgramKind ProgramKindOf(const ProcessModel& process) {
  // Where the probes can't tell the program: at an exec the kernel names a process by its file.
  const std::string& name = process.executable.empty() && process.execed ? process.comm : process.executable;
  if (IsShell(name)) return ProgramKind::kShell;
  if (process.execed && process.command.empty()) return ProgramKind::kUnseen;
  return name.empty() ? ProgramKind::kUnknown : ProgramKind::kOther;
}

void AssignRoles(const Sample& sample, RunModel* model) {
  std::map<int, absl::Duration> ends;
  for (const Event& event : sample.events) {
    if (event.Is<ProcessExited>()) ends.emplace(event.index, event.t);
  }
  ForEachLately(*model, [&](ProcessModel& process) {
    if (process.ended || process.id.pid == 0) return;
    ProcessModel* const parent = model->Find(process.parent);
    if (process.duty.start == StartMethod::kUnknown) process.duty.start = StartByCommand(process, parent);
    process.role = RoleOf(process, *model);
    const bool belongs = IsOneOfASet(process);
    if (belongs && process.generation < 0) JoinSet(ends, model, &process);
    if (!belongs && process.generation >= 0) LeaveSet(model, &process);
    if (!belongs || parent == nullptr) return;
    const bool was_worker = parent->is_worker();
    parent->leads = true;
    model->settled.stale |= parent->ended && was_worker && !parent->is_worker();
  });
  NoteRankOfTarget(model);
}

void NoteEnd(RunModel* model, ProcessModel* process) {
  if (!IsOneOfASet(*process) || !FailedToExec(*process)) return;
  WorkerSets& sets = model->worker_sets[process->parent];
  if (process->generation == sets.last) ++sets.failed;
  process->role = Role::kHelper;
  LeaveSet(model, process);
  // subprocess waits until each child runs its program: several side by side, and no other, are workers after all.
  if (sets.members > 0 || sets.failed < 2) return;
  ++sets.last;
  for (auto worker = model->processes.rbegin(); sets.failed > 0 && worker != model->processes.rend(); ++worker) {
    if (worker->parent != process->parent || !FailedToExec(*worker)) continue;
    worker->role = Role::kWorker;
    worker->generation = sets.last;
    ++sets.members;
    --sets.failed;
  }
  model->settled.stale = true;
}

void AppendLoader(const LoaderWorker& now, absl::Duration t, RunModel* model, ProcessModel* process) {
  const bool is_new = !process->loader;
  const LoaderWorker before = process->loader.value_or(LoaderWorker{});
  process->loader = now;
  if (is_new) NoteNumber(model, process);
  if (!now.batch) return;
  process->batch_seen = t;
  // Batches are dealt out in turn, unless the loader gives them to whoever is free (in_order=False), or an iterable
  // data set has ended in some workers.
  const auto begun = [&](uint64_t batch) -> Count {
    if (now.num_workers == 0 || batch % now.num_workers != now.worker_id) return std::nullopt;
    return batch / now.num_workers + 1;
  };
  const bool epoch_began = before.batch && *now.batch < *before.batch;
  if (epoch_began) process->batches_before += begun(*before.batch).value_or(0);
  process->dealt_in_turn &= begun(*now.batch).has_value();
  process->batches = process->dealt_in_turn ? Count(process->batches_before + *begun(*now.batch)) : std::nullopt;
}

const RankFacts* RankOf(const ProcessModel& process, const RunModel& model) {
  const ProcessModel* one = &process;
  for (int i = 0; i < kDeepest && one != nullptr; ++i) {
    if (one->rank) return one->rank->source == RankSource::kNone ? nullptr : &*one->rank;
    // torch.multiprocessing.spawn numbers its processes; the environment is the launcher's.
    if (one->duty.duty == Duty::kTrainer) return nullptr;
    one = one->index == 0 ? nullptr : model.Find(one->parent);
  }
  const RankFacts& of_target = model.info.identity.rank;
  return one == nullptr && of_target.source != RankSource::kNone ? &of_target : nullptr;
}

RankFacts JobOf(const RunModel& model) {
  RankFacts job = model.info.identity.rank;
  for (const ProcessModel& process : model.processes) {
    if (!process.rank) continue;
    if (!job.world_size) job.world_size = process.rank->world_size;
    if (job.job_id.empty()) job.job_id = process.rank->job_id;
  }
  return job;
}

Count LocalRankOf(const ProcessModel& process, const RunModel& model) {
  const ProcessModel* trainer = TrainerOf(process, model);
  if (const RankFacts* rank = RankOf(process, model); rank != nullptr && rank->local_rank) return rank->local_rank;
  return trainer != nullptr && trainer->duty.duty == Duty::kTrainer ? trainer->duty.number : std::nullopt;
}

Count RankNumberOf(const ProcessModel& process, const RunModel& model) {
  const RankFacts* facts = RankOf(process, model);
  return facts != nullptr && facts->rank ? facts->rank : LocalRankOf(process, model);
}

uint64_t MostAtOnce(int living, Changes changes) {
  std::sort(changes.begin(), changes.end());
  int most = living;
  for (const auto& [t, change] : changes) most = std::max(most, living += change);
  return most;
}

Slots SlotsOf(const RunModel& model) {
  Slots slots;
  std::map<int, Changes> changes;  // of workers, by rank
  Changes ranks;                   // torchrun starts all anew when one has failed
  std::map<uint64_t, int> latest;  // index of the rank that had this number last
  for (const ProcessModel& process : model.processes) {
    if (IsTrainer(process, model)) {
      changes[process.index];
      if (const Count number = RankNumberOf(process, model)) latest[*number] = process.index;
      ranks.emplace_back(process.started, 1);
      if (process.ended) ranks.emplace_back(*process.ended, -1);
    }
    const Count configured = process.loader ? process.loader->num_workers : process.duty.configured;
    if (configured) slots.configured = std::max(slots.configured.value_or(0), *configured);
    const ProcessModel* trainer = IsOneOfASet(process) ? TrainerOf(process, model) : nullptr;
    if (trainer == nullptr) continue;
    changes[trainer->index].emplace_back(process.started, 1);
    if (process.ended) changes[trainer->index].emplace_back(*process.ended, -1);
  }
  slots.ranks = MostAtOnce(0, std::move(ranks));
  Count least;
  for (auto& [rank, times] : changes) {
    const uint64_t of_rank = MostAtOnce(0, std::move(times));
    slots.most_of_rank = std::max(slots.most_of_rank, of_rank);
    const Count number = RankNumberOf(*model.Find(rank), model);
    const bool failed_early = of_rank == 0 && number && latest[*number] != rank;  // and was started anew
    if (!failed_early) least = std::min(least.value_or(of_rank), of_rank);
  }
  slots.least_of_rank = least.value_or(0);
  return slots;
}

bool HasRanks(const RunModel& model) {
  return std::any_of(model.processes.begin(), model.processes.end(),
                     [](const ProcessModel& process) { return process.role == Role::kRank; });
}

bool TargetIsWorker(const RunModel& model) {
  const ProcessModel* const target = model.target();
  return target != nullptr && (target->duty.duty == Duty::kLoader || target->duty.duty == Duty::kPool);
}

bool IsTrainer(const ProcessModel& process, const RunModel& model) {
  return process.role == Role::kRank || (process.index == 0 && model.target_is_rank);
}

std::set<int> LaunchersOf(const RunModel& model) {
  std::set<int> launchers;
  for (const ProcessModel& process : model.processes) {
    if (process.role != Role::kRank) continue;
    const ProcessModel* above = model.Find(process.parent);
    while (above != nullptr && above->role != Role::kRank && launchers.insert(above->index).second)
      above = above->index == 0 ? nullptr : model.Find(above->parent);
  }
  return launchers;
}

const char* WordOf(Role role) {
  return role == Role::kOther ? "process" : role == Role::kPool ? NameOf(Role::kWorker) : NameOf(role);
}

std::string LabelOf(const ProcessModel& process, const RunModel& model) {
  const RankFacts* rank = RankOf(process, model);
  const bool local = rank != nullptr && !rank->rank && rank->local_rank;
  const Count number = rank != nullptr && !local ? rank->rank : LocalRankOf(process, model);
  const char* const noun = local ? "local rank" : NameOf(Role::kRank);
  if (IsTrainer(process, model) || (process.index == 0 && model.target_is_other_rank))
    return number ? absl::StrCat(noun, " ", *number) : noun;
  std::string label = process.index == 0 && HasRanks(model) ? "launcher" : WordOf(process.role);
  if (process.loader) absl::StrAppend(&label, " ", process.loader->worker_id);
  const ProcessModel* trainer = TrainerOf(process, model);
  if (trainer != nullptr && number) absl::StrAppend(&label, " of ", noun, " ", *number);
  return label;
}

}  // namespace cowprof
