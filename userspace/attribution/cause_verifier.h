// Proof by bytes: reads a random sample of the pages that a worker and its parent no longer share, in both processes,
// and says what differs in each. Called by the collector with the addresses that the page map showed as diverged; owns
// the sample and the sums. Asks neither the page map nor the probes: it is the check of what those found.
#ifndef COWPROF_VERIFY_H_
#define COWPROF_VERIFY_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "model/sample.h"
#include "python/memory_reader.h"
#include "python/page_diff.h"

namespace cowprof {

struct PageVerdict {
  uint64_t address = 0;
  PageDiff diff = PageDiff::kIdentical;
  bool operator==(const PageVerdict&) const = default;
};

struct VerifyBudget {
  absl::Duration cpu = absl::Milliseconds(5), wall = absl::Milliseconds(50);
};

// The two sides of a comparison. The caller has made sure that the pids still are the processes it means, and that
// there is something to say: for a Python without a HeadLayout it does not call at all. The readers must not pin pages,
// as process_vm_readv(2) does: a page that the parent still shares with its other workers would be copied for it
// (256 of 256 on 6.18).
struct VerifyTarget {
  int index = 0;  // of the worker in the recording
  const MemoryReader& worker;
  const MemoryReader& parent;
  HeadLayout layout;
  TypeLookup types;  // of the worker; none: no Python in the process, so that a page is identical or data
};

// Both processes run on while they are read. A verdict is of the moment: a page that is identical now may get data
// later, and what differs may have been written by the parent, whose copy diverges from what both had just the same.
class Verifier {
 public:
  // A worker of which this many pages were compared is known well enough (shares within 0.4 points); it also bounds
  // what is remembered of it.
  static constexpr size_t kMaxPagesPerWorker = 1 << 16;
  static constexpr uint64_t kPageBytes = 4096;  // x86-64

  // The same seed and the same calls give the same sample.
  explicit Verifier(uint64_t seed, size_t pages_per_round = 400) : random_(seed), pages_per_round_(pages_per_round) {}

  // Takes part in the draw of this round: pages that diverged, each once a round, in any order and any number of calls.
  // Every page offered has the same chance; one that was compared before has none.
  void Offer(int index, absl::Span<const uint64_t> page_addresses);

  // Compares the sample drawn from what was offered since the last call, until a budget is used up (a piece of 32 pages
  // is always finished; none is begun on a budget of 0), and returns the verdicts. Pages left over are forgotten: those
  // compared are a random sample all the same. Pages that can't be read in one of the processes are not counted.
  std::vector<PageVerdict> Run(const VerifyTarget& target, VerifyBudget budget);

  // Since the worker was first offered; zeros if it never was.
  VerifyFigures FiguresOf(int index) const;

  // The worker ended or has another address space: its figures stay, its pages may be compared anew.
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

// What the probes said of a page: whether the first write to it, the one that made the copy, was one of data.
struct ProbedPage {
  uint64_t address = 0;
  bool first_write_was_data = false;
};

// Pages that both looked at. The two may rightly differ: a first write to a refcount is often followed by data on the
// same page, and a write of data may write the value that was there, or be undone. So a disagreement is no error by
// itself, but on programs that do one thing only (tests/system) it must stay within 3 points of all pages.
struct Agreement {
  uint64_t agree = 0;
  uint64_t called_harmless_but_data_differs = 0;
  uint64_t called_data_but_nothing_differs = 0;  // nothing but refcounts, GC heads and hashes
  bool operator==(const Agreement&) const = default;
};
Agreement CompareWithProbes(absl::Span<const ProbedPage> probed, absl::Span<const PageVerdict> verdicts);

}  // namespace cowprof

#endif  // COWPROF_VERIFY_H_
