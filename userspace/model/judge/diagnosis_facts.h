// What the diagnoses look at, and the list of them. A diagnosis is one pure function in a diagnose_*.cc; an empty id
// means that it does not apply.
#ifndef COWPROF_MODEL_JUDGE_DIAGNOSIS_FACTS_H_
#define COWPROF_MODEL_JUDGE_DIAGNOSIS_FACTS_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/facts/framework.h"
#include "model/judge/diagnosis.h"
#include "model/judge/findings.h"
#include "model/judge/start_methods.h"

namespace cowprof {

// A forked interpreter copies 100 to 300 pages just by starting to run, a torch worker up to 1,300, one that opens lmdb
// or a memmap up to 3,500 (measured, docs/diagnoses.md), so less than this in a process is not a finding; nor is 1 % of
// what it inherited, up to 64 MiB.
inline constexpr uint64_t kNoiseBytes = 16 << 20, kMostNoiseBytes = 64 << 20;
// A cause is a finding if it made this much in the workers that copied more than noise. What the others copied, however
// many they are, is noise.
inline constexpr double kNoticeableShare = 0.1;        // of the copies of all workers
inline constexpr uint64_t kNoticeableBytes = 8 << 20;  // for each of those that copied more
inline constexpr double kNoticeableLine = 0.05;        // of the copies by a cause
inline constexpr double kMostOfIt = 0.5;               // what has this share of something explains it

// What the diagnoses look at: the workers' copies by cause, and the rest of the recording.
struct Facts {
  const RunModel& model;
  const Estimates& estimates;
  const Findings& findings;  // all but the diagnoses
  uint64_t page_bytes = 0;
  uint64_t copies = 0, most_of_one = 0;  // by workers that inherited memory
  uint64_t listed_copies = 0;            // of `copies`, by workers that are listed one by one
  // Left out of these: by workers that fork, what they copied again and again, and what they did not inherit.
  uint64_t copied_again = 0;
  std::optional<BlameTables> without_forkers;  // Findings::of_workers without those of which all is left out, if any
  CauseCounts causes = {};
  std::vector<pid_t> pids;          // of workers that copied more than noise
  CauseCounts causes_of_pids = {};  // of the copies that these made
  uint64_t copies_of_pids = 0;      // their number
  bool pids_in_turn = false;        // some of these ended before others started
  bool has_ranks = false;           // a launcher started trainers
  // Of `pids`, and of all workers: all are ranks that were forked, and so have their launcher's memory.
  bool pids_are_ranks = false, all_are_ranks = false;
  bool from_forkserver = false;            // most of `pids` were forked by a forkserver, and have its memory
  const ProcessModel* between = nullptr;   // a worker, if it is the parent of all `pids`
  Framework framework = Framework::kFork;  // FrameworkOf()

  uint64_t Of(Cause cause) const { return causes[static_cast<int>(cause)]; }
  const BlameTables& tables() const { return without_forkers ? *without_forkers : findings.of_workers; }
  std::string Bytes(uint64_t pages) const;
  bool Matters(uint64_t pages_of_pids) const {
    return !pids.empty() && pages_of_pids * page_bytes >= pids.size() * kNoticeableBytes &&
           pages_of_pids >= kNoticeableShare * listed_copies;
  }
  bool Matters(std::initializer_list<Cause> some) const;
  // In all, each of them no more than noise; or some was left out.
  bool OthersCopiedMuch() const;
  bool HasWorkers() const;
  // Of the copies that living workers had at their peak, those by these causes. Bytes.
  uint64_t AtPeak(std::initializer_list<Cause> some) const;
  // Workers run the loop of PyTorch's DataLoader.
  bool dataloader() const { return framework == Framework::kDataLoader; }
  // It started ranks, and is not one itself, with workers of its own.
  bool target_only_launches() const { return has_ranks && !model.target_is_rank; }
  const char* Target() const {
    return target_only_launches() ? "launcher" : dataloader() || has_ranks ? "trainer" : "parent";
  }
  // Whose memory the workers inherited: "the parent", "worker 4711".
  std::string Owner() const;
  // Who copied it.
  const char* Copiers() const { return pids_are_ranks ? "ranks" : "workers"; }
  // Where code runs in that process before it forks: `here`, unless it is a forkserver, which runs only what it
  // preloads.
  const char* BeforeTheFork(const char* here) const {
    return from_forkserver
               ? "at the end of the last module that multiprocessing.set_forkserver_preload() names (Python "
                 "3.13.8, 3.14.1 and later: by default the main module)"
               : here;
  }
  // nullptr, too, where what was looked at starts other workers than those of `pids`: a launcher, and not the trainer.
  const SeenStartMethods* start_methods() const;
  // Known to have no Python, so nothing of Python is advised.
  bool native() const { return framework == Framework::kNative; }
  // "2 workers", "12 workers, 2 at a time"
  std::string Workers() const;
  // " in 2 workers", ", summed over 12 workers, 2 at a time": after bytes that all of them copied. " in 2 of 4
  // workers": these lived at one time, and the others hardly copied anything.
  std::string WorkersInSum() const;
};
Facts FactsOf(const Run& run, const Findings& findings);
Framework FrameworkOf(const RunModel& model);
// Whether it trains, and so may write a checkpoint: it has a DataLoader or ranks, or is one.
bool Trains(const RunModel& model);
// Whether the program's Python is known to be older than 3.`minor`, and so lacks what came with that.
bool HasOlderPython(const RunModel& model, int minor);
// "multiprocessing.shared_memory" (from 3.8 on), or what there was before.
const char* SharedMemoryOfPython(const RunModel& model);

// A worker whose causes are known, and that has inherited memory.
bool HasInheritedMemory(const ProcessModel& process);
// "spawn", "forkserver", "loky", or "" for a worker that was forked from the program itself.
absl::string_view PicklingMethodOf(const ProcessModel& process);
PeakSplit PeakSplitOf(const RunModel& model);
// Of `fresh_bytes` of new memory that a process holds, what was pickled to it.
struct Pickled {
  uint64_t at_start = 0, received = 0;
  bool or_imported = false;  // its stacks were not sampled: `at_start` is all of it, and may be imports
  uint64_t bytes() const { return at_start + received; }
};
Pickled PickledIn(const RunModel& model, const ProcessModel& process, uint64_t fresh_bytes);
// Of what a worker already had when cowprof attached, what can't be copies, since its start method pickles: a spawned
// worker shares nothing with the program, and one of a forkserver has copied at most what that server has. Bytes.
uint64_t NeverShared(const RunModel& model, const ProcessModel& process);
// The same, as far as it still had it at the workers' peak. Bytes.
uint64_t NeverSharedAtPeak(const RunModel& model, const ProcessModel& process);
// Of the private memory that workers had before the attach and still had at their peak, what can't be copies or, if not
// `never_shared`, what may be. Bytes.
uint64_t BeforeAttachAtPeak(const RunModel& model, bool never_shared);
// What this process may copy without anybody being blamed. Bytes.
uint64_t NoiseOf(const ProcessModel& process, uint64_t page_bytes);
// Whether it forked processes itself, be it to run programs in them; not by vfork, which shares nothing again.
inline bool HasForked(const ProcessModel& process) { return process.forks + process.forks_for_exec > 0; }
// NoiseOf(), with what it writes again after each of its own forks. Bytes.
uint64_t NoiseWithForks(const ProcessModel& process, uint64_t page_bytes);
// What a worker copied of what it inherited, if that is more than noise. Pages.
uint64_t NotableCopies(const ProcessModel& process, uint64_t page_bytes);

// What a process that forked this often may copy without anybody being blamed: each fork shares again what it always
// writes, 0.5 MiB of a plain interpreter, 2 to 4 MiB of a torch trainer. Where the child calls exec (`for_exec`), only
// until then: subprocess.run() without vfork takes 210 to 270 faults in all, a command of bash 23. Bytes.
uint64_t RewrittenAfterForks(uint64_t forks, uint64_t for_exec = 0);

// Copies of the target that it made while it pickled what it sends to its workers.
uint64_t CopiedByPickling(const Facts& facts);

uint64_t CopiesBy(std::initializer_list<Cause> causes, const CauseCounts& counts);

// What a remedy saves of `bytes`, which the workers had together at their peak. At most all of it, at least 80 %: the
// fix sketches left 4 to 17 % of the copies (docs/diagnoses.md, "What a fix saves").
Saving SavingOf(uint64_t bytes);

// Examples of mmap(2) with MAP_PRIVATE.
inline constexpr char kPrivateMaps[] = "numpy.memmap(mode=\"c\"), torch.load(mmap=True), MAP_PRIVATE";

// The first limit of this kind; nullptr: it was not read.
const LimitModel* LimitOf(const RunModel& model, LimitKind kind);
// The living process that a limit of kind kDescriptors, kMappings or kAddressSpace is about: what it uses is next to
// its figure. nullptr: no such figure is known.
const ProcessModel* HolderOf(const LimitSample& limit, const RunModel& model);
std::string Percent(double share);         // "63 %"
std::string LineText(const Frame& frame);  // "coco.py:41 in CocoDataset.__getitem__"; "" if unknown

// Of the standard library or an installed package: no line that the reader can change.
bool IsOfLibrary(const Frame& frame);
// "76 % of it at coco.py:41 in Coco.__getitem__, via pandas (str)"; `at`: "at", "first touched at". Where no line of
// the program is on the stack: "76 % of it in torch's collate_tensor_fn (collate.py:163), on what your Dataset
// returned".
std::string CulpritText(Culprit culprit, bool estimated, absl::string_view at);

// Below that, what fills a limit other than memory may yet stop: queues that fill, files opened at a start.
inline constexpr double kHalfFull = 0.5;
// "The host's memory (23.5 GiB) will be full in about 12 min at 8.0 MiB/s. ": of the limit that will be met first. "":
// none, or none that is half full. Whose memory fills it is not said: what the forecast calls flat may be theirs, such
// as shared memory without a name. nothing_to_do.cc
std::string LimitAhead(const Facts& facts);
// "Nothing to do: the workers share what they should.": of a run in which memory is well. nothing_to_do.cc
std::string NothingToDo(const Facts& facts);
// " The workers added 208.5 MiB of shared memory ...; it still grows, by 10.4 MiB per second.": beside /dev/shm, or as
// most of what grows. "": neither is so. shared_memory.cc
std::string SharedMemoryOf(const Facts& facts);
// "The target is itself a worker of a DataLoader: attach to ... to see ...": "" where it is not known to be one.
// nothing_to_do.cc
std::string TargetIsWorkerText(const Facts& facts);
// Whether there is nothing to do about what the workers copied and hold, if no finding is about it. nothing_to_do.cc
bool HoldLittle(const Facts& facts);
// " Each of 8 workers had ...": what follows a bad end, or a word on mapped files, where workers or a process that grew
// held much. "": otherwise. nothing_to_do.cc
std::string MuchHeld(const Facts& facts);
// "Each of 8 workers had 3.0 GiB or more of new memory of its own, 24.0 GiB together; ...": where that is much, and
// each has much of it, and all together more than `bytes`. "": otherwise. nothing_to_do.cc
std::string OwnOfWorkers(const Facts& facts, uint64_t bytes = 0);
// "The process 4711 (python3) allocated 80.0 MiB of new memory within 12 s, ...": a process other than a worker that
// keeps growing, perhaps only at its start. "": there is none. diagnose_memory.cc
std::string GrowthOfOthers(const Facts& facts);
// Whether its new memory kept rising as long as it was seen, without slowing down. diagnose_memory.cc
bool KeepsGrowing(const ProcessModel& process, const Facts& facts);
// Whether "new-memory-growth" is found. diagnose_memory.cc
bool WorkersKeepGrowing(const Facts& facts);
// Whether the forecast of a run that goes on says that new memory comes without an end in sight, from any process, be
// it too little for a finding.
bool StillGrows(const Facts& facts);

// diagnose_copies.cc
Diagnosis CowRefcount(const Facts& facts);
Diagnosis TorchRefcount(const Facts& facts);
Diagnosis CowGcHeader(const Facts& facts);
// What another start method would send to each worker. "": the workers have no other, or nothing is known of one.
// diagnose_pickled.cc
std::string SpawnAdvice(const Facts& facts);
// By gc.freeze() in the parent. Nothing is sure where workers read inherited objects, too: what they read of those that
// the collector reached, they copy all the same (of 64 MiB, 6 were saved).
Saving SavedByFreezing(const Facts& facts);
Diagnosis CowData(const Facts& facts);
// Whether most of what CowData is about is written by the program to memory that it inherited: not by a runtime (Perl,
// R), not by GUP, not to files, and not perhaps by an allocator such as jemalloc. Otherwise no sketch helps.
bool ProgramWrites(const Facts& facts);
// Whether what TorchRefcount is about are tensors, as far as stacks tell: other C++ objects have counts, too.
bool ReadsTensors(const Facts& facts);
Diagnosis AllocatorReuse(const Facts& facts);

// diagnose_parent.cc
Diagnosis ParentUnshare(const Facts& facts);

// diagnose_memory.cc
Diagnosis NewMemoryGrowth(const Facts& facts);
Diagnosis GcDisabled(const Facts& facts);
Diagnosis FileBacked(const Facts& facts);
Diagnosis TrainerGrowth(const Facts& facts);
// diagnose_pickled.cc
Diagnosis PrivateBySpawn(const Facts& facts);
Diagnosis PickledArguments(const Facts& facts);
// Whether this process is known to receive the arguments of tasks. A process of any other kind may be there to keep
// what it receives.
bool ReceivesTasks(const ProcessModel& process);
// Whether some of the workers at the peak were forked from the program itself, and so have its globals.
bool WorkersInherit(const Facts& facts);
Diagnosis BeforeAttach(const Facts& facts);
// larger_shm.cc
// A size for /dev/shm that is surely larger: twice what it holds, or held, rounded up to a power of two, but no more
// than limits of memory leave: "128m". nullopt: they leave no more than it has.
std::optional<std::string> LargerShm(const RunModel& model);
// What the first advice begins with then: it is what helps at once.
inline constexpr char kNoLargerShm[] = "Memory has no room for a larger one: keep";
// The same, of a container's own: what is in it counts against a cgroup that does not hold the present one, too.
// nullopt, too, where the target has the host's.
std::optional<std::string> LargerShmOfContainer(const RunModel& model);
const char* CountsAgainstMemory(const RunModel& model);  // a sentence, or "" without a limit of the cgroup
// diagnose_shm.cc
Diagnosis ShmFull(const Facts& facts);
Diagnosis ShmNearFull(const Facts& facts);
Diagnosis ShmUnlinked(const Facts& facts);
Diagnosis ShmLeaked(const Facts& facts);
// diagnose_descriptors.cc
Diagnosis FdExhaustion(const Facts& facts);
// diagnose_deaths.cc
Diagnosis OomCgroup(const Facts& facts);
Diagnosis OomHost(const Facts& facts);
Diagnosis OomDaemon(const Facts& facts);  // "oom-host", by an OOM killer in user space
Diagnosis SigbusFile(const Facts& facts);
Diagnosis ShmFullDeath(const Facts& facts);  // "shm-full", from the processes that died of it
// diagnose_start.cc
Diagnosis CouldNotPickle(const Facts& facts);  // "pickle-failure"
// diagnose_fork.cc
// Where a server makes what a fork would harm: its workers, such as `worker`, can't be started in another way. "": it
// is not a worker of such a server.
std::string AfterForkAdvice(const ProcessModel& worker, const RunModel& model);
Diagnosis ForkHazards(const Facts& facts);
// diagnose_hangs.cc
Diagnosis ForkHang(const Facts& facts);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_DIAGNOSIS_FACTS_H_
