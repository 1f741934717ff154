// The comparison in words and as a table, and the sentence that every output begins with.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/format.h"
#include "sink/compare/diff.h"
#include "sink/compare/figure_format.h"

namespace cowprof {
namespace {

constexpr size_t kMostParts = 8;

// "hold 412.0 MiB less private memory (-88 %)"
std::string Clause(const FigureChange& row, const char* verb, const char* what) {
  const double change = row.change->best;
  if (row.verdict == Change::kSame) return absl::StrCat(verb, " as much", what);
  const std::string percent = PercentText(row.a->mean, change);
  return absl::StrCat(verb, " ", AmountText(row.figure, std::abs(change)), change < 0 ? " less" : " more", what,
                      percent.empty() ? "" : " ", percent);
}

std::string PartsText(const char* title, const std::vector<PartChange>& parts) {
  std::string out;
  for (size_t i = 0; i < std::min(parts.size(), kMostParts); ++i) {
    const PartChange& part = parts[i];
    const std::string numbers = NumbersText(part);
    absl::StrAppendFormat(&out, "  %11s %11s %12s  %-5s %s%s\n", AmountText(Figure::kCopied, part.a),
                          AmountText(Figure::kCopied, part.b), ChangeText(Figure::kCopied, part.b - part.a),
                          KindText(part), NameText(part.name), numbers.empty() ? "" : absl::StrCat(" (", numbers, ")"));
  }
  if (out.empty()) return "";
  if (parts.size() > kMostParts) absl::StrAppend(&out, "  and ", parts.size() - kMostParts, " more (--json has all)\n");
  return absl::StrFormat("\n  %11s %11s %12s        %s\n%s", "A", "B", "change", title, out);
}

}  // namespace

std::string DiffSentence(const Diff& diff) {
  const Comparison& of = diff.comparison;
  if (!of.obstacles.empty()) return absl::StrCat("Can't be compared: ", absl::StrJoin(of.obstacles, " "));
  const FigureChange* peak = of.Find(Figure::kPrivatePeak);
  const FigureChange* copied = of.Find(Figure::kCopied);
  const FigureChange* shm = of.Find(Figure::kShmPeak);
  std::vector<std::string> clauses;
  if (peak != nullptr && peak->verdict)
    clauses.push_back(absl::StrCat("at their peak, B's workers ", Clause(*peak, "hold", " private memory")));
  if (copied != nullptr && copied->verdict)
    clauses.push_back(absl::StrCat(clauses.empty() ? "B's workers " : "they ", Clause(*copied, "copy", "")));
  if (of.more_shm && *of.more_shm > shm->change->best)
    clauses.push_back(absl::StrCat("beyond what was in it before, /dev/shm holds ",
                                   AmountText(Figure::kShmPeak, *of.more_shm), " more"));
  else if (shm != nullptr && shm->verdict.value_or(Change::kSame) != Change::kSame)
    clauses.push_back(absl::StrCat("/dev/shm ", Clause(*shm, "holds", "")));
  if (!of.verdict) {
    return copied != nullptr && copied->verdict
               ? "Unknown: the workers' memory is not known on both sides, and copies of different start methods "
                 "can't be compared."
               : "Unknown: neither the workers' memory nor their copies are known on both sides.";
  }
  std::string verdict = NameOf(*of.verdict);
  verdict[0] = absl::ascii_toupper(verdict[0]);
  return absl::StrCat(verdict, ": ", absl::StrJoin(clauses, "; "), ".");
}

std::string DiffText(const Diff& diff) {
  const Comparison& of = diff.comparison;
  std::string out = absl::StrCat(DiffSentence(diff), "\n");
  if (of.prediction) absl::StrAppend(&out, "  ", PredictionText(*of.prediction), "\n");
  for (const std::string& note : of.notes) absl::StrAppend(&out, "  Note: ", note, "\n");
  absl::StrAppendFormat(&out, "\n  %11s %11s %12s\n", "A", "B", "change");
  for (const FigureChange& row : of.figures) {
    const auto amount = [&](const std::optional<SideFigure>& side) {
      return side ? AmountText(row.figure, side->mean) : std::string("-");
    };
    absl::StrAppendFormat(&out, "  %11s %11s %12s  %s %s%s\n", amount(row.a), amount(row.b),
                          row.change ? ChangeText(row.figure, row.change->best) : "-", LabelOf(row.figure),
                          row.change ? PercentText(row.a->mean, row.change->best) : "",
                          !of.obstacles.empty() || !row.verdict ? "" : absl::StrCat(": ", NameOf(*row.verdict)));
  }
  out += PartsText("line (copied by the workers)", of.lines);
  out += PartsText("type", of.types);
  out += "\n";
  for (const RunFigures& run : diff.a) absl::StrAppend(&out, "  A  ", RunText(run), "\n");
  for (const RunFigures& run : diff.b) absl::StrAppend(&out, "  B  ", RunText(run), "\n");
  return out;
}

}  // namespace cowprof
