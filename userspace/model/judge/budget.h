// Bounds on what a recording may show, absolute or against a baseline, and which of them are broken. A bound that can't
// be decided is never kept. Pure.
#ifndef COWPROF_MODEL_JUDGE_BUDGET_H_
#define COWPROF_MODEL_JUDGE_BUDGET_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/facts/limit.h"
#include "model/judge/run_figures.h"

namespace cowprof {

// Whose figure is bounded: of all workers together, of each one, or of the workers of each rank.
enum class BoundScope { kAll, kWorker, kRank };
template <>
inline constexpr auto kNamesOf<BoundScope> = NamesFor<BoundScope>("all", "per_worker", "per_rank");

struct Bound {
  Figure figure = Figure::kCopied;
  BoundScope scope = BoundScope::kAll;
  double most = 0;       // in the figure's unit or, with a baseline, in parts of its figure: 1.05
  std::string baseline;  // path of a recording; "": `most` is absolute
  std::string text;      // as it was given, to name it: "--max-copied 20MiB"
};

struct LimitBound {
  std::string name;              // of its kind: "shm"; "cgroup": of either version
  std::vector<LimitKind> kinds;  // one of them, whichever the host has
  double most = 0;               // in parts of the limit
};

struct Budget {
  std::vector<Bound> bounds;
  std::vector<LimitBound> limits;
  std::vector<std::string> forbidden;  // ids of diagnoses
  bool empty() const { return bounds.empty() && limits.empty() && forbidden.empty(); }
};

// Every id that a diagnosis can have (docs/diagnoses.md).
inline constexpr absl::string_view kDiagnosisIds[] = {
    "cow-refcount",   "cow-gc-header",     "cow-data",      "parent-unshare", "private-by-spawn",
    "gc-disabled",    "new-memory-growth", "file-backed",   "shm-full",       "shm-near-full",
    "sigbus-file",    "shm-unlinked",      "shm-leaked",    "oom-cgroup",     "oom-host",
    "fd-exhaustion",  "fork-hang",         "fork-hazard",   "pickle-failure", "pickled-arguments",
    "torch-refcount", "allocator-reuse",   "before-attach", "trainer-growth", "clean"};

// "20MiB", "1.5 GB", "0 B": a size with its unit. nullopt: it is not one. Units: B, kB, MB, GB, TB (powers of 1000),
// KiB, MiB, GiB, TiB (of 1024).
std::optional<double> ParseSize(absl::string_view text);

// "20MiB", "105%:FILE", "+5%:FILE". InvalidArgument says what is wrong with it. Without a FILE, that of `baseline`.
absl::StatusOr<Bound> ParseBound(absl::string_view text, const std::string& baseline);

enum class BoundOutcome { kKept, kBroken, kUndecided };
template <>
inline constexpr auto kNamesOf<BoundOutcome> = NamesFor<BoundOutcome>("kept", "broken", "undecided");

struct BoundResult {
  BoundOutcome outcome = BoundOutcome::kKept;
  std::string name;                // "copied", "private-peak per worker", "no cow-refcount", "limit cgroup-v2"
  std::string sentence;            // "copied by the workers: 81.9 MiB, which is 61.9 MiB more than 20.0 MiB allow"
  std::optional<Culprit> culprit;  // the line to which most of a finding goes back; of a broken bound
  std::string culprit_of;          // id of that finding
};

struct CheckResult {
  std::vector<BoundResult> results;            // broken ones first
  BoundOutcome outcome = BoundOutcome::kKept;  // the worst: broken, then undecided
};
// `baselines` has the figures of each baseline that a bound names. What is broken although the recording missed a part
// is broken; what is kept then, is undecided.
CheckResult Check(const RunFigures& run, const Budget& budget, const std::map<std::string, RunFigures>& baselines);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_BUDGET_H_
