// Decides the part that each process plays, by what it is: what it inherited, which program it runs, what its frames
// and its environment say. Command lines, which programs change, count only where a recording has nothing better. Pure.
#ifndef COWPROF_MODEL_FACTS_ROLES_H_
#define COWPROF_MODEL_FACTS_ROLES_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "model/facts/run_model.h"

namespace cowprof {

// What a process runs that has just called exec, or did not inherit its memory.
ProgramKind ProgramKindOf(const ProcessModel& process);

// Sets the role, the start method and the generation of the living processes. Call when the events of `sample` were
// added, except that processes ended.
void AssignRoles(const Sample& sample, RunModel* model);
// Call when a process has ended: one that could not run its program was no worker.
void NoteEnd(RunModel* model, ProcessModel* process);
// Adds what was read of a worker's loop.
void AppendLoader(const LoaderWorker& now, absl::Duration t, RunModel* model, ProcessModel* process);

// The rank that the process has itself, or inherited. nullptr: none is known.
const RankFacts* RankOf(const ProcessModel& process, const RunModel& model);

// Its rank on its host; of a process that torch.multiprocessing.spawn started, which one it is.
Count LocalRankOf(const ProcessModel& process, const RunModel& model);
// Its rank in the job or, where that is not known, on its host.
Count RankNumberOf(const ProcessModel& process, const RunModel& model);

// What is known of the whole job: of the target, otherwise of the ranks that it started.
RankFacts JobOf(const RunModel& model);

// Starts (1) and ends (-1) of processes, with their times.
using Changes = std::vector<std::pair<absl::Duration, int>>;
// The most that lived at once, of `living` before the first change. What ends and what starts at the same time did not
// live together.
uint64_t MostAtOnce(int living, Changes changes);

// Trainers, and the workers of each.
struct Slots {
  uint64_t ranks = 0;  // that lived at once; 0: no launcher
  Count configured;    // the largest num_workers of a DataLoader, or that of a pool; absent: not known
  uint64_t least_of_rank = 0, most_of_rank = 0;  // workers that lived at once, of the rank with fewest and with most
};
Slots SlotsOf(const RunModel& model);

// Whether the target is a launcher: it started ranks.
bool HasRanks(const RunModel& model);

// Whether the target is a worker of a DataLoader or pool, as its frames say: whoever attached to it meant what started
// it.
bool TargetIsWorker(const RunModel& model);

// A rank, or a target that is one itself beside those that it started.
bool IsTrainer(const ProcessModel& process, const RunModel& model);

// The processes that started ranks, directly or not, by index: the launcher, and what runs between it and the ranks.
std::set<int> LaunchersOf(const RunModel& model);

// A role as sentences name it: "worker" of a pool, too, and "process" of others.
const char* WordOf(Role role);

// "launcher", "worker", "rank 0", "worker 1 of rank 0", "local rank 0" where only that is known: role and numbers, as
// far as they are known.
std::string LabelOf(const ProcessModel& process, const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_ROLES_H_
