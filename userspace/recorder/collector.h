// Joins every source into one Sample per tick and owns the list of followed processes. Called by the recording loop.
// Decides when the costly reads (smaps_rollup, the page-map sweep) are due and affordable; judges no figure.
#ifndef COWPROF_COLLECTOR_H_
#define COWPROF_COLLECTOR_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "address_spaces.h"
#include "attribution.h"
#include "copied_bytes.h"
#include "model/sample.h"
#include "shm_watch.h"
#include "source/fault_source.h"
#include "source/limits.h"
#include "source/pagemap.h"
#include "source/procfs.h"
#include "verify.h"

namespace cowprof {

struct CollectorOptions {
  uint64_t page_bytes = 4096;
  uint64_t t0_ns = 0;   // CLOCK_BOOTTIME at the start of the recording
  bool causes = true;   // read Python's memory to say why pages were copied
  bool verify = false;  // compare a sample of copied pages with the parent's
  absl::Duration sweep_interval = absl::Seconds(5);
  absl::Duration full_sweep_interval = absl::Seconds(60);  // of workers; the target is always swept in full
  absl::Duration rollup_interval = absl::Seconds(30);
  // A rollup holds the target's mmap_lock all the while it reads; longer than this is not taken (the sweep is,
  // instead).
  absl::Duration longest_stall = absl::Milliseconds(3);
};

class Collector {
 public:
  Collector(std::unique_ptr<FaultSource> faults, ProcFs proc, Limits limits, const CollectorOptions& options);

  // Everything known now. `interval` bounds what the costly reads may take; `last` asks for
  // one more truth of each living process. Fails only if the fault source does.
  absl::StatusOr<Sample> Collect(absl::Duration interval, bool last);

  // False once the target has ended (and its end stands in a sample).
  bool target_alive() const { return target_alive_; }
  // The limits alone, as the target meets them now: cheap enough for several times between two ticks.
  std::vector<LimitSample> LookAtLimits(absl::Duration now) { return limits_.Look(target_, now); }
  int wake_fd() const { return faults_->wake_fd(); }
  // When to collect at the latest, on CLOCK_BOOTTIME: a program that has just started is to be known before it copies.
  absl::Duration next_extra_tick() const;
  // CPU time that the sweep and the looks at shared memory took so far: they have allowances of their own.
  absl::Duration sweep_cost() const { return sweep_.cost() + shm_watch_.cost(); }

 private:
  struct Tracked {
    int index = 0;
    int space = 0;  // index of the process whose address space it has: its own since an exec, its parent's since a fork
    uint32_t serial = 0;
    ProcessId id, parent;
    Origin origin = Origin::kForked;
    absl::Duration next_rollup, next_full_sweep;
    uint64_t anon_pages = 0, file_pages = 0;      // at the last tick
    uint64_t own_pages = 0, swept_own_pages = 0;  // got so far: now, and when the regions were last handed to the sweep
  };

  absl::Duration Since(uint64_t boot_ns) const {
    return absl::Nanoseconds(boot_ns) - absl::Nanoseconds(options_.t0_ns);
  }
  Tracked& Track(const FollowedProcess& process, absl::Duration t, Sample* sample);
  void End(const FollowedProcess& process, const Tracked& tracked, Sample* sample);
  void AddEvents(const std::vector<SeenEvent>& seen, Sample* sample);
  void AddEvidence(const SeenEvent& seen, Event* event);
  void NameCgroup(const SeenEvent& seen, LimitSample* limit) const;
  ProcessSample ReadProcess(const FollowedProcess& process, Tracked* tracked);
  void ReadRollups(absl::Duration t, absl::Duration budget, bool last, Sample* sample);
  void PlanSweeps(absl::Duration t, bool last);
  std::shared_ptr<const std::vector<AddressRange>> RangesOf(const Tracked& tracked, absl::Duration t);
  void LookAtInherited(const Sample& sample);
  void RunSweep(absl::Duration interval, bool last, Pull* pull, Sample* sample);
  void Count(const Tracked& tracked, const FinishedSweep& sweep, bool last);
  absl::Duration SweepBudget(absl::Duration interval, bool last) const;
  void AddOomVictims(Sample* sample);
  void LookAtShm(absl::Duration interval, bool last, Sample* sample);

  // A program may have new places, or start others, all the time.
  static constexpr double kMostExtraTicks = 30, kExtraTicksPerSecond = 0.2;

  std::unique_ptr<FaultSource> faults_;
  ProcFs proc_;
  Limits limits_;
  CollectorOptions options_;
  PagemapSweep sweep_;
  ShmWatch shm_watch_;
  absl::flat_hash_map<ProcessId, Tracked> living_;
  int next_index_ = 0;
  pid_t target_ = 0;
  uint64_t shm_device_ = 0;                // that the target has at /dev/shm
  std::vector<LimitSample> cgroups_seen_;  // those of `limits`, while the target could be asked
  absl::Duration last_t_;
  bool target_alive_ = true;
  std::optional<SweepJob> PlanSweep(Tracked* tracked, absl::Duration t, std::vector<uint64_t> touched);
  std::optional<VerifyFigures> Verify(const Tracked& worker, const FinishedSweep& sweep);
  void Attribute(const Pull& pull, absl::Duration t, bool last, Sample* sample);
  Attribution attribution_;
  PageLog page_log_;
  bool logging_pages_ = true;
  AddressSpaces spaces_;
  Verifier verifier_{/*seed=*/1};
  CopiedBytes copied_bytes_{proc_};
  absl::Duration next_places_, next_pages_, last_attributed_;
  absl::Duration last_fork_;
  double extra_ticks_ = kMostExtraTicks;           // left of those that names to be read are worth
  absl::Duration next_sweep_, sweep_cost_before_;  // before: when the current round began
  double rollup_ns_per_page_ = 60;  // 55 ms for 4 GiB of 4 KiB pages on a 2.5 GHz virtual CPU; then as measured
  uint64_t unreadable_ = 0;
  // As they were at least kKillWindow ago, and since then, for AddOomVictims: a large process takes long to come apart.
  std::vector<LimitSample> limits_before_, limits_since_;
  absl::Duration limits_since_at_;
};

}  // namespace cowprof

#endif  // COWPROF_COLLECTOR_H_
