// Tracks the private memory of one process between two looks at its page map: keeps the last truth, and the counters as
// of then. Pure.
//
// The truth is a sweep, a smaps_rollup, or the fork, when neither the child nor its parent owns an anonymous page. From
// then on
//   private = truth + pages copied + growth of RssAnon and VmSwap,
// because a copy leaves their sum unchanged, as swapping does, and new memory raises it; a copy of a page of a file is
// new memory. Of a page in swap the page map does not show whether it is private: the prediction stands. A sweep
// is later than the counters of its sample; it corrects what they predict only as far as copies and frees in between
// cannot explain the difference. A page of the parent also becomes its own when the last child copies it: Follow()
// estimates that until the next look.
#ifndef COWPROF_MODEL_FACTS_PRIVATE_MEMORY_H_
#define COWPROF_MODEL_FACTS_PRIVATE_MEMORY_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "model/facts/copies_of_files.h"
#include "model/facts/recent.h"
#include "model/facts/sample.h"

namespace cowprof {

struct ProcessModel;

// What the living children of a process have copied, as shares of what they inherited.
struct CopiedShares {
  double least = 1;    // of the child that copied least: all of them have copied that much, if they copy the same pages
  double product = 1;  // what all of them have copied, if each copies pages at random
};

class PrivateMemory {
 public:
  // Adds the process's row of the sample at `t`; `process` already has its counts and /proc figures. Sets the derived
  // figures of `process`: private, peak, still shared and PSS bytes, copies of files, and its latest sweep and rollup.
  void Append(const ProcessSample& sample, absl::Duration t, const RunInfo& info, ProcessModel* process);
  // The process forked a child at `t`, which inherited `pages`: all that it had is shared again.
  void Fork(absl::Duration t, uint64_t pages, const RunInfo& info, ProcessModel* process);
  // Adds what has become the process's own, since the last look at it, because its children copied it. Call at each
  // sample at which it has children, after Append().
  void Follow(absl::Duration t, const CopiedShares& copied, uint64_t page_bytes, ProcessModel* process);
  // Anonymous pages that it got at its fork, or had at the attach. Absent: it was never seen.
  const Count& inherited_pages() const { return inherited_pages_; }
  // The process called exec: it inherits nothing and owns nothing yet. `copies`: its count so far.
  void Exec(uint64_t copies);
  // The process ended: its history is no longer needed.
  void End() {
    past_.Free();
    shares_.Free();
  }

 private:
  static constexpr size_t kLongestPast = 1024;
  struct Basis {
    uint64_t private_pages = 0;  // anonymous
    uint64_t copies = 0, anonymous_pages = 0;
  };
  struct Past {
    absl::Duration t;
    uint64_t copies = 0, fresh = 0, anonymous_pages = 0;  // fresh: new pages that are no copies of anonymous ones
  };
  struct Range {
    uint64_t least = 0, most = 0;
  };
  struct RollupBasis {
    uint64_t private_bytes = 0, copies = 0, anonymous_pages = 0;
  };
  struct Shares {
    absl::Duration t;
    CopiedShares copied;
  };
  static Basis BasisAtFork(const ProcessModel& process);
  struct SharesAround {
    CopiedShares before, at, after;
  };
  SharesAround SharesAt(absl::Duration t) const;
  double CopiedByAll(const CopiedShares& copied) const;
  static Count BeforeAttach(uint64_t page_bytes, const ProcessModel& process);
  const Past& LastBefore(absl::Duration t) const;
  Range FoundBy(const SweepFigures& sweep, Exactness exactness) const;
  uint64_t PagesAt(const Past& now) const;
  void RebaseOnSweep(const SweepFigures& sweep, Exactness exactness);
  uint64_t OtherBytes(const RollupFigures& rollup, uint64_t most, uint64_t shared, const ProcessModel& process) const;
  void RebaseOnTruth(const ProcessSample& sample, const RunInfo& info, ProcessModel* process);
  void Derive(uint64_t page_bytes, ProcessModel* process) const;

  std::optional<Basis> anonymous_;
  std::optional<RollupBasis> rollup_;
  Recent<Past, kLongestPast> past_;   // the samples from that of the last sweep on
  std::optional<Past> before_;        // the last sample but one
  uint64_t private_other_bytes_ = 0;  // private pages of files and hugetlb, at the last rollup
  bool seen_ = false;                 // in /proc, at least once
  Count inherited_pages_;
  CopiesOfFiles of_files_;
  std::optional<Basis> forked_;  // when it last forked: it shared all
  absl::Duration forked_at_;
  Recent<Shares, kLongestPast> shares_;   // since the last look
  std::optional<absl::Duration> looked_;  // when, if Follow() has not taken note of it yet
  double alike_ = 1;                      // how far the children copy the same pages: 1 they do, 0 at random
  double copied_by_all_ = 0;              // at the last look
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_PRIVATE_MEMORY_H_
