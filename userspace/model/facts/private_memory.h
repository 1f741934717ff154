// Tracks the private memory of one process between two looks at its page map: keeps the last truth, and the counters as
// of then. Pure.
//
// The truth is a sweep, a smaps_rollup, or the fork, when a child owns no anonymous page. From then on
//   private = truth + pages copied + growth of RssAnon,
// because a copy leaves RssAnon unchanged and new memory raises it.
#ifndef COWPROF_MODEL_FACTS_PRIVATE_MEMORY_H_
#define COWPROF_MODEL_FACTS_PRIVATE_MEMORY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "model/facts/sample.h"

namespace cowprof {

struct ProcessModel;

class PrivateMemory {
 public:
  // Adds the process's row of the sample at `t`; `process` already has its counts and /proc figures. Sets the derived
  // figures of `process`: private, peak, still shared and PSS bytes, and its latest sweep and rollup.
  void Append(const ProcessSample& sample, absl::Duration t, const RunInfo& info, ProcessModel* process);
  // The process called exec: it inherits nothing and owns nothing yet. `copies`: its count so far.
  void Exec(uint64_t copies);
  // The process ended: its history is no longer needed.
  void End() { past_ = {}; }

 private:
  struct Basis {
    uint64_t private_pages = 0;  // anonymous
    uint64_t copies = 0, anon_pages = 0;
  };
  struct Past {
    absl::Duration t;
    uint64_t copies = 0, anon_pages = 0;
  };
  struct RollupBasis {
    uint64_t private_bytes = 0, copies = 0, anon_pages = 0;
  };
  static Basis BasisAtFork(const ProcessModel& process);
  static Count BeforeAttach(uint64_t page_bytes, const ProcessModel& process);
  Past PastAt(absl::Duration t) const;
  void RebaseOnSweep(const SweepFigures& sweep, Exactness exactness);
  void RebaseOnTruth(const ProcessSample& sample, const RunInfo& info, ProcessModel* process);
  void Derive(uint64_t page_bytes, ProcessModel* process) const;

  std::optional<Basis> anonymous_;
  std::optional<RollupBasis> rollup_;
  std::vector<Past> past_;            // the samples since the last sweep
  uint64_t private_other_bytes_ = 0;  // private pages of files and shared memory, at the last rollup
  bool seen_ = false;                 // in /proc, at least once
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_PRIVATE_MEMORY_H_
