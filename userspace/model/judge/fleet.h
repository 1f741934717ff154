// Several recordings of one job, side by side: a row for each rank, who died first, what all have in common, and who is
// unlike the rest. Pure.
#ifndef COWPROF_MODEL_JUDGE_FLEET_H_
#define COWPROF_MODEL_JUDGE_FLEET_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/judge/findings.h"
#include "model/judge/memory_curve.h"
#include "model/judge/run_figures.h"

namespace cowprof {

// A process that did not end well.
struct Death {
  absl::Duration t;  // since the start of the recording
  std::string who;   // "worker 1 of rank 0 (4242)"
  std::string text;  // "killed by SIGKILL: the OOM killer, limit of cgroup /job"
  ProcessId process;
  std::string cause = {};  // as in PostMortem
  std::optional<FatalSignal> sent = {};
  bool of_launcher = false;    // it started the rank
  bool with_launcher = false;  // ended together with its launcher
  bool operator==(const Death&) const = default;
};

// One rank; of a program without ranks, one recording.
struct FleetRow {
  std::string path;           // of the recording
  std::string host, boot_id;  // "": not known
  std::string job_id;         // "": none
  Count rank, local_rank, world_size;
  ProcessId process;  // the rank's own
  std::string command;
  absl::Time started;                  // the host's wall clock when the recording began
  std::optional<absl::Duration> boot;  // time since boot at that moment; absent: not known
  absl::Duration duration;
  bool complete = false;
  uint64_t workers = 0;  // that lived at once, at most
  Count copied_bytes;    // by its workers
  WorkersPeak peak;
  PeakSplit split;
  Outlook outlook = Outlook::kUnknown;
  std::string forecast;  // a sentence; "": none
  Harm harm = Harm::kNone;
  Headline headline;
  std::optional<Culprit> culprit;
  bool culprit_copies = false;         // it copies inherited memory; otherwise it allocates
  std::vector<Death> deaths;           // of the rank and its workers, in order of time
  std::vector<Death> launchers;        // of those that started it, in order of time
  std::vector<MemberFigures> members;  // its workers
  MemoryCurve memory;                  // of its workers; without points: not collected
};
// Of a run that has one rank, or none. `path` names the recording for a reader.
FleetRow RowOf(const std::string& path, const Run& run, const Findings& findings, bool complete);
// "rank 3", "local rank 1 of run.json", or without either the name of the recording.
std::string NameOf(const FleetRow& row);

// The processes of other ranks than one, by index.
struct OtherRanks {
  std::shared_ptr<const std::vector<int>> rank_of;  // shared by all ranks: the rank of each process; -1: none
  int own = 0;
  // Also a process that came after those of `rank_of`.
  bool Have(int index) const {
    if (index < 0) return false;
    return static_cast<size_t>(index) >= rank_of->size() || ((*rank_of)[index] >= 0 && (*rank_of)[index] != own);
  }
};

// Tells the ranks apart that one host's recording has. Give it every sample, then ask.
class RanksApart {
 public:
  void Add(const Sample& sample);
  // One set for each rank: the processes that are its own. Empty: the run has at most one rank.
  struct Rank {
    int index = 0;  // its process; of one that was started again, the first; 0: the target
    OtherRanks others;
  };
  std::vector<Rank> Of(const RunModel& model) const;

 private:
  std::vector<int> parents_;  // by index; -1: none
};
// What is left of a sample without the processes of other ranks, for a RunModel with `is_part`, and `target_is_rank` if
// the rank is the target, `target_is_other_rank` if another one is. What holds for the host stays.
Sample Without(const OtherRanks& others, const Sample& sample);
std::vector<Alert> Without(const OtherRanks& others, const std::vector<Alert>& alerts);

// Clocks of hosts that are kept by NTP differ by less.
inline constexpr absl::Duration kClocksAgree = absl::Seconds(1);
// Whether the time since boot orders what is in both.
bool SameBoot(const FleetRow& a, const FleetRow& b);

// Whether two recordings, by their rows, are of one job at one time: they overlap, have the same job id, and no rank is
// in both. Without numbers of ranks: of a job that has an id, on two hosts. Otherwise they are two runs.
bool AreOneJob(const std::vector<FleetRow>& a, const std::vector<FleetRow>& b);

struct FirstDeath {
  size_t row = 0;  // number in Fleet::rows
  Death death;
  uint64_t with_it = 0;  // of a launcher: deaths together with it
  // Until the next death in a row of another process, or of a launcher the next that was not together with it; absent:
  // none. If the order is undecided: until the first death that may have been earlier.
  std::optional<absl::Duration> until_next;
  size_t next_row = 0;
  // Another host's process ended badly so soon that the order may be the other way round by the right clocks.
  bool undecided = false;
};

struct Fleet {
  std::vector<FleetRow> rows;  // by job, rank, host, start
  // By row: when its recording began, by the wall clock that its host had at the first recording of that boot. So rows
  // of one host are in the order of the time since boot even if that clock was set.
  std::vector<absl::Time> begins;
  // In order, each once, with the number of the first row that has it. A launcher's is with the first row of its
  // recording, or its own if it is a rank itself, before those of the processes that ended together with it.
  std::vector<std::pair<size_t, Death>> deaths;
  std::optional<FirstDeath> first;
  std::string sentence;             // what happened, or the worst row
  std::vector<std::string> common;  // "cow-refcount is the first finding in 8 of 8"
  std::vector<std::string> unlike;  // "rank 3 copied 4.2 GiB, 2.1 times the median"
  // What makes the table less than it seems: a rank that is there twice, clocks that differ, ranks that are missing.
  std::vector<std::string> notes;
  std::vector<size_t> firsts;  // by row: the first one of the same process, mostly itself
  std::vector<bool> repeated;  // by row: an earlier one is of the same process at the same time, and counts
  uint64_t processes = 0;      // that the rows are of
  // Sums over them. Recordings of one process at several times: the most of workers and peaks, all that was copied.
  uint64_t workers = 0;
  Count copied_bytes;       // absent: not known of one row
  uint64_t peak_bytes = 0;  // peaks of ranks need not have been at one time
};
Fleet FleetOf(std::vector<FleetRow> rows);
// Sets `deaths` and `first`, and Death::with_launcher of the rows; part of FleetOf. `differ`: the clocks of two hosts
// order nothing.
void FindDeaths(bool differ, Fleet* fleet);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_FLEET_H_
