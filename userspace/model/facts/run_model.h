// What a recording says so far. Samples are appended one by one, live and on replay alike, and each process's memory
// figures are derived here and nowhere else. Pure: no I/O, no clock.
#ifndef COWPROF_MODEL_FACTS_RUN_MODEL_H_
#define COWPROF_MODEL_FACTS_RUN_MODEL_H_

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "model/facts/enum_names.h"
#include "model/facts/pages_by_region.h"
#include "model/facts/private_memory.h"
#include "model/facts/sample.h"
#include "model/saturating.h"

namespace cowprof {

enum class Role { kParent, kWorker, kForkserver, kHelper, kOther, kRank, kPool };
template <>
inline constexpr auto kNamesOf<Role> = NamesFor<Role>("parent", "worker", "forkserver", "helper", "other", "rank",
                                                      "pool");

// What a process runs, as far as its role depends on it. kUnseen: it called exec and ended, or called exec again,
// before it could be looked at, so that nothing is known of what its children inherited.
enum class ProgramKind { kUnknown, kUnseen, kShell, kOther };

// How a process ended, from its wait(2) status.
struct Exit {
  bool signaled = false;
  int code = 0;    // exit code, or 128 + signal
  int signal = 0;  // 0 unless signaled
};
Exit ExitOf(int wait_status);

// A process that the OOM killer, or a daemon like it, chose, with the figures of that moment.
struct OomKill {
  absl::Duration t;
  LimitSample limit;                   // that was met
  uint64_t victim_bytes = 0;           // private memory of the process
  int top_contributor = -1;            // the process that had grown most; -1: none had
  uint64_t top_contributor_bytes = 0;  // its growth: since its fork; of a parent, since it forked its first worker
  uint64_t workers = 0, workers_grown_bytes = 0;  // alive at that moment, and their growth in all
  uint64_t recorded_bytes = 0;                    // private memory of all recorded processes, and what they share
};

// New pages of one process at one growth site, with a few earlier values in order of time.
struct GrowthModel {
  uint64_t pages = 0;
  std::vector<std::pair<absl::Duration, uint64_t>> before;  // at most kMost, of every `stride`th report
  uint64_t reports = 0, stride = 1;
  static constexpr size_t kMost = 16;
  void Append(absl::Duration t, uint64_t pages_now);
  uint64_t PagesSince(absl::Duration t) const;  // exact if it was reported at `t`, otherwise since the report before
};

// By how much the number of a process's descriptors rose in the later half of its life or longer: what it opens as it
// starts, and keeps, is forgotten.
struct DescriptorRise {
  // When `since` begins anew: at twice the age at which it began.
  absl::Duration until = -absl::InfiniteDuration();
  uint64_t least = 0, since = 0;  // the most by which it had more than at some time before
  uint64_t before = 0;            // the same, in the time before
  void Append(absl::Duration t, absl::Duration started, uint64_t last, uint64_t now);
  uint64_t descriptors() const { return std::max(before, since); }
};

// Copies of a process until some moment.
struct CopiesSoFar {
  uint64_t copies = 0, of_files = 0;  // of_files: of these, at least so many
};

// One process, now (or at its end).
struct ProcessModel {
  int index = 0;
  ProcessId id;
  int parent = -1;
  Origin origin = Origin::kForked;
  Role role = Role::kOther;
  std::string comm, command;
  std::string executable;                       // path of the program that it runs; "": not known
  bool execed = false;                          // since it was first followed
  bool vforked = false;                         // and has not called exec: its memory is its parent's
  ProgramKind program = ProgramKind::kUnknown;  // until it calls exec, that which its parent ran when it forked it
  DutyFound duty;                      // as last read from its frames; its start method also by its command line
  std::optional<RankFacts> rank;       // as its environment says; absent: inherited, or none
  std::optional<LoaderWorker> loader;  // a worker of PyTorch's DataLoader
  // Batches that it was seen to have begun, in all its epochs: at least this many. Absent: not a DataLoader's worker,
  // or batches are not dealt out in turn.
  Count batches;
  uint64_t batches_before = 0;  // of these, in earlier epochs
  absl::Duration batch_seen;    // when the last of these was seen to have begun
  bool dealt_in_turn = true;
  int generation = -1;               // which set of workers of its parent, from 0; -1: it is not a worker
  bool leads = false;                // it has workers of its own
  uint64_t forks = 0;                // processes that it forked and that have not called exec
  uint64_t forks_before_attach = 0;  // those of them that were there at the attach, which are not among `forks`
  uint64_t forks_for_exec = 0;       // that have called exec since; none that it started by vfork, which copies nothing
  absl::Duration started;
  std::optional<absl::Duration> ended;
  std::optional<Exit> exit;
  uint64_t stands_for = 1;                // number of processes; more than 1 only in RunModel::ended_aggregates
  uint64_t bad_ends = 0;                  // of these, in RunModel::ended_aggregates only: HasBadEnd()
  Count most_copies, most_private_bytes;  // of one of these, there only; absent: not known of each

  FaultCounts counts;
  uint64_t gup_copies = 0;       // see ProcessSample
  Count mappings;                // the same
  uint64_t copies_of_files = 0;  // of its copies, at least so many: see CopiesOfFiles
  // At the sample before it forked the first of `forks`; nothing, if it had children at the attach. Absent: no fork
  // yet, or none since its exec.
  std::optional<CopiesSoFar> at_first_fork;
  std::optional<CauseCounts> causes;
  absl::btree_map<int, CopySiteCount> copy_sites;  // by copy site
  std::map<int, GrowthModel> growth;               // by growth site; empty: not sampled
  absl::btree_map<int, RegionCount> regions;       // by region, as the last sweep found them
  PagesByRegion copied_pages;                      // by region, as the probes reported page by page
  std::optional<VerifyFigures> verify;
  int space = 0;  // index of the process whose address space it has: its own since an exec, its parent's since a fork
  std::optional<bool> collector_on;         // Python's cycle collector, as last read
  std::optional<bool> persistent;           // whether a PyTorch worker lives on for the next epoch
  std::optional<Framework> framework;       // that it runs under, or that it has no Python; absent: unknown
  std::vector<Event> signals;               // SignalSent and SignalDelivered; the last few
  bool oom_victim = false;                  // the OOM killer chose it, and it was not dying already
  std::optional<OomKill> oom;               // the same, if its limit is known
  std::optional<OomKill> oom_daemon;        // as an OOM daemon, such as earlyoom, last sent it a signal; no limit
  std::string python;                       // version of the interpreter; "": none, or not known
  std::string python_problem;               // why it can't be read; "": it can
  std::optional<StartFailed> start_failed;  // the last such error
  absl::Duration start_failed_at;
  std::optional<LastErrorSeen> last_error;
  absl::Duration last_error_at;
  std::vector<Hang> hangs;  // as last seen; `waited`: until hangs_at. Empty: none was seen, or they went on after all
  absl::Duration hangs_at;  // when the first was found
  ProcFigures proc;
  Count first_anon_pages;               // when it was first seen; since an exec: 0
  uint64_t first_swap_pages = 0;        // then
  Count parent_anon_pages;              // of its parent, when it was forked
  std::optional<RollupFigures> rollup;  // the latest
  std::optional<SweepFigures> sweep;

  // Derived, in bytes. Private memory is updated at every tick: the last truth (a sweep, a rollup, or the fork, when a
  // child owns nothing) + pages copied since + growth of RssAnon since, which a copy leaves unchanged and new memory
  // raises.
  Count private_bytes, peak_private_bytes, pss_bytes;
  Count still_shared_bytes;   // anonymous memory that another process maps, too: what a write would copy
  Count before_attach_bytes;  // private when cowprof attached; absent: it was forked since, or called exec since
  Count peak_descriptors;
  DescriptorRise descriptor_rise;
  Count ceiling_bytes() const {
    if (!private_bytes || !still_shared_bytes) return std::nullopt;
    return *private_bytes + *still_shared_bytes;
  }
  double copies_per_second = 0;  // between the last two samples

  // Its copies of memory that it inherited: those of pages of files are new memory, and raise RssAnon.
  uint64_t inherited_copies() const { return SaturatingSubtract(counts.copies.value_or(0), copies_of_files); }
  // Until then nobody shared its memory. 0: it inherited it, or has not forked.
  CopiesSoFar before_sharing() const { return space == index ? at_first_fork.value_or(CopiesSoFar{}) : CopiesSoFar{}; }
  // Its copies of memory that it shared, be it with its children only.
  uint64_t shared_copies() const {
    const CopiesSoFar before = before_sharing();
    return SaturatingSubtract(SaturatingSubtract(counts.copies.value_or(0), before.copies),
                              SaturatingSubtract(copies_of_files, before.of_files));
  }
  // Anonymous memory in RAM and in swap: now, and when it was first seen. What comes back from swap is not new. Pages.
  uint64_t anonymous_pages() const { return SaturatingAdd(proc.anon_pages.value_or(0), proc.swap_pages.value_or(0)); }
  uint64_t first_anonymous_pages() const { return SaturatingAdd(first_anon_pages.value_or(0), first_swap_pages); }
  // Of the shared memory that it added by faults, as much as it still maps. Pages.
  uint64_t shared_kept_pages() const { return std::min(counts.shm_pages.value_or(0), proc.shmem_pages.value_or(0)); }
  // Whether what it copies and holds is that of a worker. So is that of a rank that was forked, has its launcher's
  // memory and reads it itself, without workers of its own.
  bool is_worker() const {
    return role == Role::kWorker || role == Role::kPool || (role == Role::kRank && !leads && space != index);
  }
};

struct LimitModel {
  LimitSample now;
  uint64_t peak = 0, lowest = 0;
  // The most that it ever exceeded a value before, of the attach at first: what others give back meanwhile hides less
  // of what the program takes than in a difference of two samples.
  uint64_t rise = 0;
  double peak_ratio = 0;  // against the limit of that moment, which may have changed since:
  Count peak_limit;
  absl::Duration peak_t;  // when it was last as full as that
};

// The moment at which the workers had most private memory together, and what that was. Bytes; what is neither copied
// nor older than the recording is new memory: `fresh_bytes`, in order of the processes' indexes.
struct WorkersPeak {
  absl::Duration t;
  uint64_t bytes = 0, copied_bytes = 0, before_attach_bytes = 0;
  CauseCounts copies = {};             // pages, of the workers alive at that moment
  uint64_t copied_of_files_bytes = 0;  // of copied_bytes: see CopiesOfFiles
  std::vector<std::pair<int, uint64_t>> fresh_bytes;
  // Inherited, and neither copied nor shared with anybody any more: the others ended or gave it back.
  uint64_t left_bytes = 0;
  std::map<int, uint64_t> before_attach_of;  // of before_attach_bytes, by index
};

// The workers that one process has forked, set by set: an epoch's workers are a set.
struct WorkerSets {
  int last = -1;                        // number of the latest set
  std::set<int> living;                 // its members, by index
  uint64_t members = 0;                 // that it has had
  uint64_t failed = 0;                  // that ended as a failed exec does, and are no longer members
  std::map<uint64_t, int> ids;          // its DataLoader's workers, by worker_id
  std::map<uint64_t, int> earlier_ids;  // those of the set before
};

// The latest look at what workers would be sent.
struct SeenStartMethods {
  absl::Duration t;
  int index = 0;  // of the process that was read
  PickleLook look;
};

// What was seen of the threads of a process that forks.
struct SeenForkHazard {
  absl::Duration t;  // of the last look's fork, or of the attach
  ForkHazardSeen last;
  std::optional<ForkHazardSeen> with_locks;  // the last look that found a lock held
};

// Sums over processes.
struct Totals {
  uint64_t processes = 0, copies = 0, reuses = 0;
  uint64_t private_bytes = 0, still_shared_bytes = 0;
  CauseCounts causes = {};
  double copies_per_second = 0;
  // Each of at least one process.
  bool copies_known = false, causes_known = false;
  bool private_known = false, still_shared_known = false;
  bool operator==(const Totals&) const = default;
};

// What a sample changes is asked of those that were alive at some time since the sample before: thousands may have
// ended. The others are summed up here, as long as no row comes for one of them after its end.
struct SettledSums {
  Totals all, workers;
  uint64_t inherited_copies = 0;  // of workers
  size_t listed = 0;              // how many of them are in RunModel::processes
  bool stale = false;
};

struct RunModel {
  RunInfo info;
  absl::Duration t;  // of the last sample
  uint64_t samples = 0;
  // In order of index. Only about `most_ended` ended processes are kept, so that a program that forks a million times
  // an hour takes bounded memory. The others are summed up in `ended_aggregates`: one row for each combination of role,
  // exec and origin.
  std::vector<ProcessModel> processes, ended_aggregates;
  size_t most_ended = 32768;
  std::vector<int> lately;  // indexes of the processes that are not in `settled`, in their order
  SettledSums settled;
  int announced = 0;                  // processes so far: the next one's index
  bool is_part = false;               // of a recording (fleet.h): indexes have gaps
  bool target_is_rank = false;        // beside the ranks that it started, as in Lightning
  bool target_is_other_rank = false;  // the same, of another part of the recording
  std::vector<LimitModel> limits;     // in order of appearance; one without a row keeps its last value
  std::vector<Frame> frames;          // by number
  std::vector<CopySite> copy_sites;
  std::vector<GrowthSite> growth_sites;
  std::vector<NumberedRegion> regions;
  std::map<int, RegionHeads> heads;                                 // by region, the latest
  absl::btree_map<std::pair<int, uint64_t>, int> regions_by_start;  // address space and start -> number; the latest
  CauseEvidence cause_evidence;
  std::optional<ShmSample> shm;          // the latest
  std::optional<ShmSample> shm_whole;    // the latest of all processes of the host: only it can tell what has no owner
  std::optional<ShmSample> shm_peak;     // the one with the most in use
  std::vector<ShmSegment> shm_unlinked;  // those that lost their name while in use, as first seen so; the first few
  Losses losses;
  std::optional<SeenStartMethods> start_methods;  // absent: nobody looked
  std::map<int, SeenForkHazard> fork_hazards;     // by index of the process that forks
  WorkersPeak workers_peak;
  std::map<uint64_t, uint64_t> rank_peaks;      // by rank: most private memory of its workers at one time, in bytes
  uint64_t most_living_workers = 0;             // at once, by the times at which they started and ended
  std::map<int, WorkerSets> worker_sets;        // by index of the process that forked the workers
  std::map<int, PrivateMemory> private_memory;  // by index: how the figures of `processes` are derived

  bool accounts_for_all() const { return settled.listed + lately.size() == processes.size(); }
  const ProcessModel* target() const { return processes.empty() ? nullptr : &processes[0]; }
  // nullptr if there is no such process, or it was aggregated.
  const ProcessModel* Find(int index) const {
    // Each has the place of its index, unless some before it were aggregated.
    const size_t place = static_cast<size_t>(index);
    return place < processes.size() && processes[place].index == index ? &processes[place] : Search(index);
  }
  ProcessModel* Find(int index) { return const_cast<ProcessModel*>(std::as_const(*this).Find(index)); }

 private:
  const ProcessModel* Search(int index) const;
};

// Adds a sample. Accepts every input: a process that came, went or is unknown is data.
void Append(const Sample& sample, RunModel* model);

// Unless `living_only`, ended processes count with their last figures.
Totals SumOf(const RunModel& model, bool living_only, bool workers_only);

std::string SignalName(int signal);  // "SIGKILL"

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_RUN_MODEL_H_
