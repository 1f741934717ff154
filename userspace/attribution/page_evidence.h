// Why and onto what, without probes: reads a sample of the pages that a worker has copied, in it and in its parent, and
// says what their bytes tell of the first write. Called by the collector where the page map alone counts. Bytes know
// less than a probe: what was undone leaves no trace, so that most pages of objects are identical; see
// docs/without-root.md for what is made of that, and for how wrong it is.
#ifndef COWPROF_COPIED_BYTES_H_
#define COWPROF_COPIED_BYTES_H_

#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "model/sample.h"
#include "program.h"
#include "source/fault_source.h"
#include "verify.h"

namespace cowprof {

// Whether Python's collector went through all objects of a process in some time. One of its young generations writes
// to few inherited objects, and is left out.
enum class Collected { kNo, kYes, kUnknown };

// What the first write to a page hit, as far as its bytes tell: `diff` of the two pages; `tracked`: of objects with
// their heads on the page, one is of a type that the collector tracks; `heads`: there is any.
cowprof_shape ShapeOf(PageDiff diff, bool heads, bool tracked, Collected collected);

class CopiedBytes {
 public:
  explicit CopiedBytes(ProcFs proc) : proc_(std::move(proc)) {}
  // Reads cost CPU time, of which `share` is allowed from now on; `now` counts from anywhere.
  void AddAllowance(absl::Duration now, double share);
  // To be called for each process once a round, parents first: how often its collector has gone through all objects.
  void NoteCollections(const ProcessId& id, const Program& program);
  // Of `copied`, addresses of pages that `worker` copied lately, a random sample. Empty where no bytes may be read, or
  // the program is not understood; nullopt: not now, it would cost too much or the program is not known yet.
  std::optional<std::vector<ExplainedPage>> Read(const ProcessId& worker, const ProcessId& parent, Program& program,
                                                 const std::vector<uint64_t>& copied);
  // It ended, or runs another program.
  void Forget(const ProcessId& id) { collections_.erase(id); }
  size_t processes() const { return collections_.size(); }  // of which something is kept

 private:
  struct Collections {
    std::optional<uint64_t> before, now;  // at the last two rounds
    std::optional<uint64_t> base;         // of a worker: before what is still to be explained
    bool unclear = false;                 // it may have been more
  };
  void NoteBase(const ProcessId& worker, const ProcessId& parent, const Program& program);
  Collected CollectedIn(const ProcessId& worker) const;

  ProcFs proc_;
  Verifier verifier_{/*seed=*/1, /*pages_per_round=*/128};
  std::mt19937_64 random_;  // the same in every run
  absl::Duration last_, allowance_ = absl::Milliseconds(200);
  absl::flat_hash_map<ProcessId, Collections> collections_;
};

}  // namespace cowprof

#endif  // COWPROF_COPIED_BYTES_H_
