// The sweeps that accompany probes: decides which process is due, which of its regions, and what may be spent. Probes
// count the copies; these sweeps show how much memory is private now.
#ifndef COWPROF_RECORDER_SWEEPER_H_
#define COWPROF_RECORDER_SWEEPER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "model/facts/sample.h"
#include "recorder/gup_copies.h"
#include "recorder/processes.h"
#include "source/fault_source.h"
#include "source/pagemap.h"
#include "source/sweep_pace.h"

namespace cowprof {

struct SweeperOptions {
  uint64_t page_bytes = 4096;
  uint64_t t0_ns = 0;          // CLOCK_BOOTTIME at the start of the recording
  size_t sample_diverged = 0;  // see SweepJob
  absl::Duration interval;     // between two rounds
};

class Sweeper {
 public:
  // `faults` says which regions were touched, and must outlive this.
  Sweeper(ProcFs proc, const SweeperOptions& options, FaultSource* faults);

  // Plans a round if one is due, and sweeps as much as the tick's budget allows. `pull` and `rows`, of which RssAnon
  // and swap count: of this tick. A sweep that missed much of what is a process's own is left out.
  std::vector<FinishedSweep> Run(const Processes& processes, const Pull& pull, const GupCopies& gup,
                                 const PullRequest& tick, absl::Span<const ProcessSample> rows);
  // The process has a new address space since `t`.
  void Exec(uint32_t serial, absl::Duration t);
  void Forget(uint32_t serial);
  absl::Duration cost() const { return sweep_.cost(); }  // CPU time so far

 private:
  struct State {
    absl::Duration next_full;      // sweep of all its regions
    uint64_t swept_own_pages = 0;  // pages of its own when its regions were last handed to the sweep
    uint64_t found = 0;            // pages of its own by the last sweep
    uint64_t pages = 0;            // of the target all, of others `found`: what few or many changes are held against
    absl::Duration gap, next;      // sweeps that find nothing new get rarer
    uint64_t gup_faults = 0;       // when faults of GUP last made all its regions be swept
    absl::Duration gup_gap, next_gup;
    uint64_t anon = 0, most_anon = 0;           // RssAnon, pages: now, and its maximum since the last sweep of all
    uint64_t swap_ins = 0, swept_swap_ins = 0;  // now, and at the last sweep of all
    absl::Duration unseen_gap, next_unseen;
    uint64_t swap = 0, planned_held = 0;  // pages in swap; those and RssAnon, when a sweep was last planned
    uint64_t parents = 0,
             swept_parents = 0;  // RssAnon of its parent: now, and at the last sweep of all or, if less, before
    Count most_shared;           // pages, with others; unless it forks, it can't get more
    bool missed = false;         // much of its own, by the last sweep
    bool is_target = false;
    bool lost_regions = false;  // it may have touched some that found no room in the table
    bool was_parent = false;    // when its regions were last handed to the sweep, or since
  };

  // The living processes with the target's address space, itself included: what its pages are shared with.
  struct Family {
    uint64_t count = 0, serials = 0, gup_faults = 0;  // sums
    std::vector<uint64_t> touched;                    // regions
  };

  Count MostInherited(const LivingProcess* parent) const;
  static bool HasMissed(const SweepFigures& sweep, State* state);
  void NoteFound(absl::Span<const FinishedSweep> sweeps, absl::Duration t);
  void PlanRound(const Processes& processes, const Pull& pull, const GupCopies& gup, const PullRequest& tick);
  // `whole`: all of it, if any.
  std::optional<SweepJob> PlanSweep(const LivingProcess& process, const LivingProcess* parent, uint64_t own_pages,
                                    uint64_t gup_faults, bool whole, const PullRequest& tick);
  bool IsDueForGup(uint64_t gup_faults, const PullRequest& tick, State* state) const;
  bool IsDueForUnseen(const PullRequest& tick, State* state) const;
  bool ChangedUnseen(const Family& family, const State& target) const;

  SweeperOptions options_;
  FaultSource* faults_;
  PagemapSweep sweep_;
  SweepPace pace_;
  absl::flat_hash_map<uint32_t, State> states_;  // by serial
  uint64_t regions_dropped_ = 0;                 // of all processes, until the last tick
  Family swept_whole_;                           // at the last sweep of all of the target; without `touched`
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_SWEEPER_H_
