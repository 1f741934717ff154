// Proof by bytes: reads a random sample of the pages that a worker and its parent no longer share, in both processes,
// and says what differs in each. Owns the sample and the sums. Depends on neither the page map nor the probes, because
// it checks what those found.
#ifndef COWPROF_ATTRIBUTION_CAUSE_VERIFIER_H_
#define COWPROF_ATTRIBUTION_CAUSE_VERIFIER_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "model/facts/sample.h"
#include "python/memory_reader.h"
#include "python/page_diff.h"

namespace cowprof {

struct PageVerdict {
  uint64_t address = 0;
  PageDiff diff = PageDiff::kIdentical;
  bool operator==(const PageVerdict&) const = default;
};

struct VerifyBudget {
  absl::Duration cpu = absl::Milliseconds(15), wall = absl::Milliseconds(100);  // some 30 µs a page
};

// The two sides of a comparison. The caller ensures that the pids are still the processes it means, and does not call
// for a Python without a HeadLayout. The readers must not pin pages, as process_vm_readv(2) does: that copies a page
// which the parent still shares with its other workers (256 of 256 on 6.18).
struct VerifyTarget {
  int index = 0;  // of the worker in the recording
  const MemoryReader& worker;
  const MemoryReader& parent;
  HeadLayout layout;
  TypeLookup types;  // of the worker; none: no Python in the process, so that a page is identical or data
};

// Both processes run on while they are read. A verdict holds for the moment: a page that is identical now may get data
// later, and the difference may have been written by the parent, which also diverges from what both had.
class CauseVerifier {
 public:
  // After this many pages of a worker its shares are known to 0.4 points; more are not compared, which also bounds the
  // memory of pages compared.
  static constexpr size_t kMaxPagesPerWorker = 1 << 16;
  static constexpr uint64_t kPageBytes = 4096;  // x86-64

  // The same seed and the same calls give the same sample.
  explicit CauseVerifier(uint64_t seed, size_t pages_per_round = 400)
      : random_(seed), pages_per_round_(pages_per_round) {}

  // Enters pages that diverged into the draw of this round: each once a round, in any order and any number of calls.
  // Every page has the same chance, but none if it was compared before.
  void Offer(int index, absl::Span<const uint64_t> page_addresses);

  // Compares the sample drawn from what was offered since the last call until a budget is used up, and returns the
  // verdicts. Finishes any piece of 32 pages that it has begun; begins none on a budget of 0. Pages left over are
  // dropped: those compared are still a random sample. Pages that can't be read in either process are not counted.
  std::vector<PageVerdict> Run(const VerifyTarget& target, VerifyBudget budget);

  // Since the worker was first offered; zeros if it never was.
  VerifyFigures FiguresOf(int index) const;

  // The worker ended or has another address space: its figures stay, its pages may be compared again.
  void Forget(int index);

 private:
  struct Worker {
    VerifyFigures figures;
    absl::flat_hash_set<uint64_t> compared;
    std::vector<uint64_t> sample;  // the reservoir
    uint64_t offered = 0;          // this round
  };
  uint64_t Below(uint64_t bound);
  std::vector<PageVerdict> ComparePiece(const VerifyTarget& target, absl::Span<const uint64_t> addresses) const;

  std::mt19937_64 random_;
  size_t pages_per_round_;
  absl::flat_hash_map<int, Worker> workers_;
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_CAUSE_VERIFIER_H_
