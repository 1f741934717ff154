// Holds two sides against each other, each one recording or several of the same program: first whether they can be
// compared, then what became less, what more. Counts of copies repeat within 0.4 % and peaks within 4 %
// (docs/comparing.md), so one recording a side is enough: there are tolerances instead of p-values. Pure.
#ifndef COWPROF_MODEL_JUDGE_COMPARISON_H_
#define COWPROF_MODEL_JUDGE_COMPARISON_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "model/judge/run_figures.h"

namespace cowprof {

enum class Change { kBetter, kSame, kWorse };
template <>
inline constexpr auto kNamesOf<Change> = NamesFor<Change>("better", "same", "worse");

// Of one side: the mean and the extremes of its recordings.
struct SideFigure {
  double low = 0, mean = 0, high = 0;
  bool operator==(const SideFigure&) const = default;
};

struct FigureChange {
  Figure figure = Figure::kCopied;
  std::optional<SideFigure> a, b;  // absent: not known in all recordings of the side
  std::optional<Estimate> change;  // b - a; low and high are as far as the tolerance goes
  std::optional<Change> verdict;   // kSame: the interval of the change holds 0. Absent: one side is unknown
  bool operator==(const FigureChange&) const = default;
};

// Copies of one line or type, means of both sides. In bytes.
struct PartChange {
  PartName name;
  double a = 0, b = 0;
  double uncertainty = 0;                 // of b - a
  std::vector<int> numbers_a, numbers_b;  // of a line
  bool certain() const { return b - a > uncertainty || a - b > uncertainty; }
  bool operator==(const PartChange&) const = default;
};

// What A said that the remedy would save of the workers' peak that B has, as far as that shows, and what B did.
struct Prediction {
  std::string remedy;  // its id
  Estimate predicted;
  double measured = 0;  // bytes; negative: B needs more
  double noise = 0;     // bytes, by which a peak varies from run to run at least
  bool holds() const { return measured >= predicted.low - noise && measured <= predicted.high + noise; }
  bool operator==(const Prediction&) const = default;
};

struct Comparison {
  std::vector<std::string> obstacles;    // why they can't be compared, a sentence each. Empty: they can
  std::vector<std::string> notes;        // what differs and does not forbid it
  std::vector<FigureChange> figures;     // one for each Figure that a side knows
  std::vector<PartChange> lines, types;  // those that have changed for certain, then by the size of the change
  std::optional<Change> verdict;         // by the workers' peak or, where that is the same, by what they copied
  std::optional<Prediction> prediction;
  // Bytes that B has more in /dev/shm, beyond what that held before, if they are more than left the workers' peak.
  std::optional<double> more_shm;
  const FigureChange* Find(Figure figure) const;
};

// Neither side is empty.
Comparison Compare(absl::Span<const RunFigures> a, absl::Span<const RunFigures> b);

// Half the width of the interval within which a figure repeats, in its unit.
double ToleranceOf(Figure figure, double value, uint64_t workers, uint64_t page_bytes);

// Why the figures of `b` can't be held against those of `a`, which names both. Empty: they can.
std::vector<std::string> ObstaclesTo(const RunFigures& a, const RunFigures& b);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_COMPARISON_H_
