#include "sink/compare/check_format.h"

#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "sink/compare/junit.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

// "cow-refcount (about 79 % at train.py:36 in __getitem__)"; "": no line is known.
std::string Blamed(const BoundResult& one) {
  if (!one.culprit) return "";
  return absl::StrCat(one.culprit_of, " (about ", Percent(one.culprit->share), " at ", LineText(one.culprit->frame),
                      ")");
}

// "": it was recorded to its end.
std::string WentOnText(const RunFigures& run) {
  if (!run.complete || run.to_end) return "";
  return absl::StrCat(" (the program went on after these ", HumanDuration(run.duration), ")");
}

}  // namespace

std::string CheckSentence(const CheckResult& check) {
  const size_t all = check.results.size();
  const size_t these =
      absl::c_count_if(check.results, [&](const BoundResult& one) { return one.outcome == check.outcome; });
  switch (check.outcome) {
    case BoundOutcome::kKept:
      return all == 1 ? "Within the bound." : absl::StrCat("Kept: all ", all, " bounds.");
    case BoundOutcome::kBroken:
      return absl::StrCat("Broken: ", these, " of ", Plural(all, "bound"), ".");
    case BoundOutcome::kUndecided:
      return absl::StrCat("Can't be decided: ", these, " of ", Plural(all, "bound"), ".");
  }
  return "";
}

std::string CheckText(const RunFigures& run, const CheckResult& check) {
  std::string out = absl::StrCat(CheckSentence(check), "\n");
  for (const BoundResult& one : check.results) {
    absl::StrAppendFormat(&out, "  %-9s  %s\n", NameOf(one.outcome), one.sentence);
    if (one.culprit) absl::StrAppend(&out, "             ", Blamed(one), "\n");
  }
  return absl::StrCat(out, "  recording: ", Printable(run.path), WentOnText(run), "\n");
}

std::string CheckMarkdown(const RunFigures& run, const CheckResult& check) {
  std::string out = absl::StrCat("<!-- cowprof check -->\n**", MarkdownCell(CheckSentence(check)),
                                 "**\n\n| | bound | line |\n| --- | --- | --- |\n");
  for (const BoundResult& one : check.results) {
    absl::StrAppend(&out, "| ", NameOf(one.outcome), " | ", MarkdownCell(one.sentence), " | ",
                    MarkdownCell(Blamed(one)), " |\n");
  }
  return absl::StrCat(out, "\nRecording: ", MarkdownCell(run.path), WentOnText(run), ". ", MarkdownCell(run.sentence),
                      "\n");
}

std::string CheckGithub(const CheckResult& check) {
  std::string out;
  for (const BoundResult& one : check.results) {
    if (one.outcome == BoundOutcome::kKept) continue;
    absl::StrAppend(
        &out, Annotation("error", one.culprit ? one.culprit->frame.file : "", one.culprit ? one.culprit->frame.line : 0,
                         absl::StrCat("cowprof: ", one.sentence, one.culprit ? "; " : "", Blamed(one))));
  }
  return out.empty() ? Annotation("notice", "", 0, absl::StrCat("cowprof: ", CheckSentence(check))) : out;
}

std::string CheckJunit(const RunFigures& run, const CheckResult& check) {
  std::vector<JunitCase> cases;
  for (const BoundResult& one : check.results) {
    cases.push_back({.name = one.name,
                     .result = one.outcome == BoundOutcome::kKept     ? CaseResult::kPassed
                               : one.outcome == BoundOutcome::kBroken ? CaseResult::kFailed
                                                                      : CaseResult::kError,
                     .message = one.sentence,
                     .detail = Blamed(one)});
  }
  return JunitXml("cowprof check", cases, run.duration);
}

Json CheckJson(const RunFigures& run, const CheckResult& check) {
  Json bounds = Json::array();
  for (const BoundResult& one : check.results) {
    Json culprit = nullptr;
    if (one.culprit)
      culprit = {{"file", one.culprit->frame.file},
                 {"line", one.culprit->frame.line},
                 {"function", one.culprit->frame.function},
                 {"via", TextOrNull(one.culprit->via)},
                 {"share", one.culprit->share},
                 {"diagnosis", one.culprit_of}};
    bounds.push_back({{"name", one.name},
                      {"outcome", NameOf(one.outcome)},
                      {"sentence", one.sentence},
                      {"culprit", std::move(culprit)}});
  }
  return {{"schema", "cowprof.check/1"},
          {"recording", run.path},
          {"outcome", NameOf(check.outcome)},
          {"sentence", CheckSentence(check)},
          {"bounds", std::move(bounds)}};
}

}  // namespace cowprof
