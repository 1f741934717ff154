// Causes and types without probes: reads a sample of the pages that a worker has copied, in the worker and in its
// parent, and infers the first write from the bytes. Bytes tell less than a probe: a write that was undone leaves no
// trace, so most pages of objects are identical. docs/without-root.md says what is inferred nevertheless, and how wrong
// it can be.
#ifndef COWPROF_ATTRIBUTION_PAGE_EVIDENCE_H_
#define COWPROF_ATTRIBUTION_PAGE_EVIDENCE_H_

#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "attribution/cause_verifier.h"
#include "attribution/program.h"
#include "model/facts/sample.h"
#include "source/fault_source.h"

namespace cowprof {

// Whether Python's collector went through all objects of a process in some time. A collection of a young generation
// writes to few inherited objects and does not count.
enum class Collected { kNo, kYes, kUnknown };

// What the first write to a page hit, as far as its bytes tell: `diff` of the two pages; `heads`: objects have their
// heads on the page; `tracked`: one of these is of a type that the collector tracks.
cowprof_shape ShapeOf(PageDiff diff, bool heads, bool tracked, Collected collected);

class PageEvidence {
 public:
  explicit PageEvidence(ProcFs proc) : proc_(std::move(proc)) {}
  // Allows reads `share` of the CPU time since the last call; `now` counts from anywhere.
  void AddAllowance(absl::Duration now, double share);
  // Notes how often the process's collector has gone through all objects. Call once a round for each process, parents
  // first.
  void NoteCollections(const ProcessId& id, const Program& program);
  // Explains a random sample of `copied`, pages that `worker` copied lately. Empty: no bytes may be read, or the
  // program is not understood. nullopt: not now, since it would cost too much or the program is not known yet.
  std::optional<std::vector<ExplainedPage>> Read(const ProcessId& worker, const ProcessId& parent, Program& program,
                                                 const std::vector<uint64_t>& copied);
  // The process ended, or runs another program.
  void Forget(const ProcessId& id) { collections_.erase(id); }
  size_t processes() const { return collections_.size(); }  // of which something is kept

 private:
  struct Collections {
    std::optional<uint64_t> before, now;  // at the last two rounds
    std::optional<uint64_t> base;         // of a worker: before the copies still to be explained
    bool unclear = false;                 // the true base may be lower
  };
  void NoteBase(const ProcessId& worker, const ProcessId& parent, const Program& program);
  static void Advance(Collections* own);
  Collected CollectedIn(const ProcessId& worker) const;

  ProcFs proc_;
  CauseVerifier verifier_{/*seed=*/1, /*pages_per_round=*/128};
  std::mt19937_64 random_;  // the same in every run
  absl::Duration last_, allowance_ = absl::Milliseconds(200);
  absl::flat_hash_map<ProcessId, Collections> collections_;
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_PAGE_EVIDENCE_H_
