// The comparison for a pull request, for a workflow of GitHub and for a CI system's list of tests.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/format.h"
#include "sink/compare/diff.h"
#include "sink/compare/figure_format.h"
#include "sink/compare/junit.h"

namespace cowprof {
namespace {

constexpr size_t kMostParts = 8, kMostAnnotations = 10;

void AppendParts(const char* title, const std::vector<PartChange>& parts, std::string* out) {
  if (parts.empty()) return;
  absl::StrAppend(out, "\n| ", title, " | A | B | change | |\n| --- | ---: | ---: | ---: | --- |\n");
  for (size_t i = 0; i < std::min(parts.size(), kMostParts); ++i) {
    const PartChange& part = parts[i];
    const std::string numbers = NumbersText(part);
    absl::StrAppend(out, "| ", MarkdownCell(NameText(part.name)),
                    numbers.empty() ? "" : absl::StrCat(" (", numbers, ")"), " | ", AmountText(Figure::kCopied, part.a),
                    " | ", AmountText(Figure::kCopied, part.b), " | ", ChangeText(Figure::kCopied, part.b - part.a),
                    " | ", MarkdownCell(KindText(part)), " |\n");
  }
}

}  // namespace

std::string DiffMarkdown(const Diff& diff) {
  const Comparison& of = diff.comparison;
  std::string out = absl::StrCat("<!-- cowprof diff -->\n**", MarkdownCell(DiffSentence(diff)), "**\n");
  if (of.prediction) absl::StrAppend(&out, "\n", MarkdownCell(PredictionText(*of.prediction)), "\n");
  out += "\n| | A | B | change | |\n| --- | ---: | ---: | ---: | --- |\n";
  for (const FigureChange& row : of.figures) {
    const auto amount = [&](const std::optional<SideFigure>& side) {
      return side ? AmountText(row.figure, side->mean) : std::string("unknown");
    };
    absl::StrAppend(&out, "| ", LabelOf(row.figure), " | ", amount(row.a), " | ", amount(row.b), " | ",
                    row.change ? absl::StrCat(ChangeText(row.figure, row.change->best), " ",
                                              PercentText(row.a->mean, row.change->best))
                               : "",
                    " | ", of.obstacles.empty() && row.verdict ? NameOf(*row.verdict) : "", " |\n");
  }
  AppendParts("line", of.lines, &out);
  AppendParts("type", of.types, &out);
  for (const std::string& note : of.notes) absl::StrAppend(&out, "\n", MarkdownCell(note), "\n");
  const auto paths = [](const std::vector<RunFigures>& runs) {
    return MarkdownCell(absl::StrJoin(runs, ", ", [](std::string* to, const RunFigures& run) { *to += run.path; }));
  };
  absl::StrAppend(&out, "\nA: ", paths(diff.a), ". B: ", paths(diff.b), ".\n");
  return out;
}

std::string DiffGithub(const Diff& diff) {
  const Comparison& of = diff.comparison;
  const std::string sentence = absl::StrCat("cowprof: ", DiffSentence(diff));
  if (!of.obstacles.empty() || !of.verdict) return Annotation("error", "", 0, sentence);
  if (*of.verdict != Change::kWorse) return Annotation("notice", "", 0, sentence);
  std::string out;
  for (const PartChange& line : of.lines) {
    if (std::count(out.begin(), out.end(), '\n') >= static_cast<ptrdiff_t>(kMostAnnotations)) break;
    if (!line.certain() || line.b <= line.a || line.numbers_b.empty()) continue;
    const std::string copies = line.numbers_b.size() == 1
                                   ? " This line copies about "
                                   : absl::StrCat(" Lines ", absl::StrJoin(line.numbers_b, ", "), " copy about ");
    absl::StrAppend(&out,
                    Annotation("error", line.name.file, line.numbers_b[0],
                               absl::StrCat(sentence, copies, AmountText(Figure::kCopied, line.b - line.a), " more.")));
  }
  return out.empty() ? Annotation("error", "", 0, sentence) : out;
}

std::string DiffJunit(const Diff& diff) {
  const Comparison& of = diff.comparison;
  std::vector<JunitCase> cases = {{.name = "comparable"}};
  if (!of.obstacles.empty()) {
    cases[0].result = CaseResult::kError;
    cases[0].message = DiffSentence(diff);
    cases[0].detail = absl::StrJoin(of.obstacles, "\n");
  }
  cases.push_back({.name = "verdict"});
  if (of.verdict == Change::kWorse) {
    cases[1].result = CaseResult::kFailed;
    cases[1].message = DiffSentence(diff);
    cases[1].detail = DiffText(diff);
  } else if (!of.verdict) {
    cases[1].result = CaseResult::kError;
    cases[1].message = DiffSentence(diff);
  }
  return JunitXml("cowprof diff", cases, diff.b[0].duration);
}

}  // namespace cowprof
