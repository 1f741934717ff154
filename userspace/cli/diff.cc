// `cowprof diff A B`, `cowprof diff A1 A2 -- B1 B2`: compares recordings.
#include "sink/compare/diff.h"

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "timeline/json_fields.h"
#include "timeline/timeline_file.h"

namespace cowprof {

std::string FormatDiff(const Diff& diff, OutputFormat format) {
  switch (format) {
    case OutputFormat::kText:
      return DiffText(diff);
    case OutputFormat::kMarkdown:
      return DiffMarkdown(diff);
    case OutputFormat::kGithub:
      return DiffGithub(diff);
    case OutputFormat::kJunit:
      return DiffJunit(diff);
    case OutputFormat::kJson:
      return Dump(DiffJson(diff), 2) + "\n";
  }
  return "";
}

absl::StatusOr<RunFigures> ReadFigures(const std::string& path) {
  Run run;
  const absl::StatusOr<TimelineContents> contents = ReadRun(path, &run);
  if (!contents.ok()) return contents.status();
  RunFigures figures = FiguresOf(path, run, Judge(run), contents->complete);
  figures.to_end |= contents->stopped_by_target;
  return figures;
}

int DiffRecordings(const Options& options) {
  Diff diff;
  for (const auto& [paths, side] : {std::pair(&options.compare.a, &diff.a), std::pair(&options.compare.b, &diff.b)}) {
    for (const std::string& path : *paths) {
      absl::StatusOr<RunFigures> figures = ReadFigures(path);
      if (!figures.ok()) return Fail(kUsage, figures.status().message());
      side->push_back(*std::move(figures));
    }
  }
  diff.comparison = Compare(diff.a, diff.b);
  if (const int code = PrintToStdout(FormatDiff(diff, options.compare.format)); code != kDone) return code;
  return diff.comparison.verdict ? kDone : Fail(kUsage, DiffSentence(diff));
}

}  // namespace cowprof
