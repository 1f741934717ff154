// Joins every source into one Sample per tick: asks each in turn and puts the results into the rows of the processes.
// The parts decide what is due when, and what it may cost. Does not judge figures.
#ifndef COWPROF_RECORDER_COLLECTOR_H_
#define COWPROF_RECORDER_COLLECTOR_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "attribution/attribution.h"
#include "model/facts/sample.h"
#include "recorder/cgroup_kills.h"
#include "recorder/fork_hazard_watch.h"
#include "recorder/gup_copies.h"
#include "recorder/hang_watch.h"
#include "recorder/parent_sweeps.h"
#include "recorder/process_pages.h"
#include "recorder/processes.h"
#include "recorder/rollups.h"
#include "recorder/shm_watch.h"
#include "recorder/start_method_watch.h"
#include "recorder/sweeper.h"
#include "recorder/target_limits.h"
#include "source/fault_source.h"
#include "source/limits.h"
#include "source/procfs.h"

namespace cowprof {

struct CollectorOptions {
  uint64_t page_bytes = 4096;
  uint64_t t0_ns = 0;   // CLOCK_BOOTTIME at the start of the recording
  bool probes = true;   // the source has probes: it makes no sweeps, and sees the OOM killer
  bool causes = true;   // read Python's memory to say why pages were copied
  bool hangs = true;    // look for processes that can never go on
  bool verify = false;  // compare a sample of copied pages with the parent's
};

class Collector {
 public:
  Collector(std::unique_ptr<FaultSource> faults, const ProcFs& proc, Limits limits, const CollectorOptions& options);
  Collector(const Collector&) = delete;  // its parts point at each other

  // From now on samples say what start methods would do.
  void WatchStartMethods(std::unique_ptr<StartMethodScout> scout) { start_methods_.emplace(std::move(scout)); }

  // Returns everything known now. `interval` bounds the time of costly reads; `last` asks for a final reading of each
  // living process. Fails only if the fault source does.
  absl::StatusOr<Sample> Collect(absl::Duration interval, bool last);

  // False once the target has ended (and a sample has its end).
  bool target_alive() const { return processes_.target_alive(); }
  // Whether another look at the process tree would show an end.
  bool some_have_ended() const { return processes_.SomeHaveEnded(); }
  // What is to be told since the last call; "": nothing.
  std::string TakeNote() { return std::exchange(note_, {}); }
  // Reads only the target's limits: cheap enough for several times between two ticks.
  std::vector<LimitSample> LookAtLimits(absl::Duration now) { return limits_.Look(processes_.target(), now); }
  // Reads what workers are for and which batch they are at, between two ticks. Times are since the start of the
  // recording.
  void LookAtWorkers(absl::Duration now) { attribution_.LookBetweenTicks(now); }
  absl::Duration next_look_at_workers() const { return attribution_.next_look(); }
  // When to collect at the latest, on CLOCK_BOOTTIME: a program that has just started should be known before it copies.
  absl::Duration next_extra_tick() const {
    return std::min(attribution_.next_extra_tick(), first_sweeps_) + absl::Nanoseconds(options_.t0_ns);
  }
  // CPU time of the sweeps and the looks at shared memory and at hangs so far: they have allowances of their own.
  absl::Duration sweep_cost() const;

 private:
  absl::Duration Since(uint64_t boot_ns) const {
    return absl::Nanoseconds(boot_ns) - absl::Nanoseconds(options_.t0_ns);
  }
  std::string Executable(pid_t pid) const;
  void Start(const FollowedProcess& process, Sample* sample);
  void Describe(pid_t pid, ProcessExeced* execed) const;
  void Exec(const LivingProcess& process, absl::Duration t);
  void End(const FollowedProcess& process, Sample* sample);
  ProcessSample ReadProcess(const FollowedProcess& process, uint64_t* faults);
  void AddTree(TreeLook* look, Sample* sample);
  void AddEvents(absl::Span<const SeenEvent> seen, Sample* sample);
  void AddEvidence(const SeenEvent& seen, Event* event);
  void AddPull(const Pull& pull, Sample* sample);
  void AddWhatCameLater(const TreeLook& look, Sample* sample);
  void AddGupCopies(const TreeLook& look, const std::vector<uint64_t>& faults, Sample* sample);
  void FindGupCopies(const TreeLook& look, Sample* sample);
  void OrderEvents(Sample* sample);
  void NoteOnUnreadable(const TreeLook& look, const Sample& sample);
  void AddLimits(const TreeLook& look, uint64_t most_mappings, Sample* sample);
  void LookAtShm(absl::Duration interval, bool last, const TreeLook& look, Sample* sample);

  CollectorOptions options_;
  ProcFs proc_;
  std::unique_ptr<FaultSource> faults_;
  Processes processes_;
  Attribution attribution_;
  ProcessPages pages_;
  std::optional<Sweeper> sweeper_;             // where there are probes
  std::optional<ParentSweeps> parent_sweeps_;  // as well
  std::optional<GupCopies> gup_copies_;        // as well: sweeps that count copies find these anyway
  absl::Duration pull_sweep_cost_;
  bool swept_ = false;
  absl::Duration first_sweeps_ = absl::InfiniteDuration();  // when they begin: after the first sample
  Rollups rollups_;
  TargetLimits limits_;
  std::optional<CgroupKills> kills_;  // where there are no probes
  ShmWatch shm_watch_;
  std::optional<StartMethodWatch> start_methods_;
  ForkHazardWatch fork_hazards_;
  std::optional<HangWatch> hangs_;
  absl::Duration last_t_;
  uint64_t unreadable_ = 0;
  std::vector<ProcessId> execed_, execed_before_;  // since the last sample, and since the one before until then
  bool noted_unreadable_ = false;                  // that one may not be examined
  std::string note_;                               // to be told
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_COLLECTOR_H_
