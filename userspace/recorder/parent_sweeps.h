// Follows, between two rounds of sweeps, how much of its memory a parent still shares. Its pages become shared at a
// fork and its own again as its children copy them or end, and no fault of its own tells that. Where the children have
// copied more than a little, or came or went, the parent's page map is read again: in pieces of 2 MiB with pauses,
// since each read holds mmap_lock, and no more often than a small share of a CPU allows. What can't be read in time is
// estimated by PrivateMemory::Follow(). Does not look at the children.
#ifndef COWPROF_RECORDER_PARENT_SWEEPS_H_
#define COWPROF_RECORDER_PARENT_SWEEPS_H_

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "recorder/processes.h"
#include "recorder/rollups.h"
#include "recorder/sample_rows.h"
#include "source/fault_source.h"
#include "source/pagemap.h"
#include "source/sweep_pace.h"

namespace cowprof {

class ParentSweeps {
 public:
  ParentSweeps(ProcFs proc, uint64_t page_bytes, uint64_t t0_ns);

  // Puts finished sweeps into the rows of the sample, each with a rollup if there is time for it. A parent whose row
  // has a sweep of this tick is not read again. `pull`: of this tick.
  void Run(const Processes& processes, const Pull& pull, const PullRequest& tick, Rollups* rollups, Sample* sample);
  // The process ended, or called exec.
  void Forget(uint32_t serial);
  absl::Duration cost() const { return sweep_.cost(); }  // CPU time so far

 private:
  // What is known of those with which a parent shares its memory.
  struct Children {
    uint64_t copies = 0, serials = 0, count = 0;  // sums
  };
  struct State {
    Children swept;      // at the last sweep
    uint64_t pages = 0;  // of the parent, at the last sweep
  };

  absl::flat_hash_map<const LivingProcess*, Children> FindParents(const Processes& processes, const Pull& pull) const;
  void Plan(const Processes& processes, const Pull& pull, const PullRequest& tick, const SampleRows& rows,
            Rollups* rollups);
  bool IsDue(uint32_t serial, const Children& now) const;
  // `row`: with a sweep of all of the parent.
  void Swept(const LivingProcess& parent, absl::Duration t, Rollups* rollups, ProcessSample* row);

  PagemapSweep sweep_;
  SweepPace pace_;
  absl::flat_hash_map<uint32_t, State> states_;  // by serial of the parent
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_PARENT_SWEEPS_H_
