// `cowprof check TIMELINE --max-... --budget FILE`: holds a recording against bounds. Status 0: all are kept; 3: one is
// broken; 2: one can't be decided; 6: a file can't be read.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/budget_options.h"
#include "cli/commands.h"
#include "cli/fleet_files.h"
#include "model/format.h"
#include "sink/compare/check_format.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

constexpr const char* kDefaultBudget = "cowprof.budget.json";

std::string Format(const RunFigures& run, const CheckResult& check, OutputFormat format) {
  switch (format) {
    case OutputFormat::kText:
      return CheckText(run, check);
    case OutputFormat::kMarkdown:
      return CheckMarkdown(run, check);
    case OutputFormat::kGithub:
      return CheckGithub(check);
    case OutputFormat::kJunit:
      return CheckJunit(run, check);
    case OutputFormat::kJson:
      return Dump(CheckJson(run, check), 2) + "\n";
  }
  return "";
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good())
    return absl::NotFoundError(absl::StrCat("read ", Printable(path), ": no such file, or no right to"));
  return text;
}

}  // namespace

int CheckRecording(const Options& options) {
  Budget budget = options.compare.budget;
  std::string file = options.compare.budget_file;
  if (file.empty() && budget.empty() && std::filesystem::exists(kDefaultBudget)) file = kDefaultBudget;
  if (!file.empty()) {
    if (IsFolder(file)) return Fail(kUsage, absl::StrCat(Printable(file), " is a folder, not a file with bounds"));
    const absl::StatusOr<std::string> text = ReadFile(file);
    if (!text.ok()) return Fail(kCannotWrite, text.status().message());
    if (const std::string error = ParseBudget(*text, file, &budget); !error.empty()) return Fail(kUsage, error);
  }
  if (budget.empty() && !file.empty())
    return Fail(kUsage, absl::StrCat(Printable(file), " has no bound; give it one, such as \"copied\": \"20MiB\""));
  if (budget.empty())
    return Fail(kUsage,
                absl::StrCat("no bound is given; give one, such as --max-copied 20MiB, or --budget FILE (default: ",
                             kDefaultBudget, " in this folder, which is not there)"));
  const absl::StatusOr<RunFigures> run = ReadFigures(options.timeline);
  if (!run.ok()) return Fail(kCannotWrite, run.status().message());
  std::map<std::string, RunFigures> baselines;
  for (const Bound& bound : budget.bounds) {
    if (bound.baseline.empty() || baselines.contains(bound.baseline)) continue;
    absl::StatusOr<RunFigures> baseline = ReadFigures(bound.baseline);
    if (!baseline.ok()) return Fail(kCannotWrite, baseline.status().message());
    baselines.emplace(bound.baseline, *std::move(baseline));
  }
  const CheckResult check = Check(*run, budget, baselines);
  const std::string text = Format(*run, check, options.compare.format);
  if (const int code = PrintToStdout(text); code != kDone) return code;
  if (check.outcome == BoundOutcome::kKept) return kDone;
  return Fail(check.outcome == BoundOutcome::kBroken ? kGateHit : kUsage,
              absl::StrCat(CheckSentence(check), " ", check.results[0].sentence));
}

}  // namespace cowprof
