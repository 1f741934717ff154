#include "sink/report/start_methods_format.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/format.h"
#include "model/judge/start_methods.h"

namespace cowprof {
namespace {

constexpr size_t kRows = 20, kLongestPath = 400;

std::string Headline(const PickleLook& look) {
  const std::string what = Printable(look.root);
  switch (VerdictOf(look)) {
    case PickleVerdict::kWillFail: {
      const PickleFailure* const first = FirstFailure(look);
      return absl::StrCat("spawn and forkserver will fail: ", Printable(first->path, kLongestPath), " is ",
                          WithArticle(Printable(first->type)), ".");
    }
    case PickleVerdict::kNoObstacleFound:
      return absl::StrCat("Nothing found that spawn or forkserver would fail on in ", what, ".");
    case PickleVerdict::kUnknown:
      break;
  }
  return absl::StrCat("Whether spawn or forkserver would work is unknown: ", WhyUnknown(look), ".");
}

std::string RangeText(const SecondsRange& range) {
  const bool short_time = range.high.value_or(range.low) < 1;
  const auto figure = [&](double seconds) {
    const double value = short_time ? seconds * 1000 : seconds;
    return absl::StrFormat("%.*f", value < 10 ? 1 : 0, value);
  };
  const char* const unit = short_time ? " ms" : " s";
  return range.high ? absl::StrCat(figure(range.low), " to ", figure(*range.high), unit)
                    : absl::StrCat("over ", figure(range.low), unit);
}

std::string HeldText(const StartCost& cost) {
  if (!cost.held) return "unknown";
  if (cost.method == "fork") return absl::StrCat(HumanBytes(cost.held->high), ", once it has copied all");
  return absl::StrCat(cost.held->high ? absl::StrCat(HumanBytes(*cost.held->high), " of objects")
                                      : absl::StrCat("over ", HumanBytes(cost.held->low), " of objects"),
                      ", and what it imports", cost.method == "forkserver" ? " anew" : "");
}

// The what-if between start methods.
std::string CostTable(const PickleLook& look, const StartCostFacts& facts) {
  std::string out = absl::StrFormat("\n  %-11s %-8s %-20s %-18s %-18s %s\n", "start", "pickles", "each worker is sent",
                                    "pickled in", "unpickled in", "and holds at most");
  for (const StartCost& cost : StartCostsOf(look, facts)) {
    const bool fork = cost.method == "fork";
    absl::StrAppendFormat(&out, "  %-11s %-8s %-20s %-18s %-18s %s\n", cost.method,
                          fork          ? "-"
                          : !cost.works ? "unknown"
                          : *cost.works ? "yes"
                                        : "no",
                          fork ? "nothing" : SentText(look),
                          fork        ? "-"
                          : cost.time ? RangeText(cost.time->pickle)
                                      : "unknown",
                          fork        ? "-"
                          : cost.time ? RangeText(cost.time->unpickle)
                                      : "unknown",
                          HeldText(cost));
  }
  if (facts.threads > 1)
    absl::StrAppend(&out, "  By fork ", Plural(facts.threads - 1, "other thread"),
                    facts.threads == 2 ? " stays" : " stay", " behind: \"cowprof doctor PID\" says what may hang.\n");
  const PickleFailure* const first = FirstFailure(look);
  if (first != nullptr && !FailsInWorker(first->reason))
    absl::StrAppend(&out, "  The spawn and forkserver figures leave out the objects that fail.\n");
  if (!facts.why_no_time.empty())
    absl::StrAppend(&out, "  How long that takes was not measured: ", facts.why_no_time, ".\n");
  if (!facts.runs.empty()) {
    absl::StrAppend(&out,
                    "  Times: CPU time for each worker, of this host; the parent pickles for one after the other.\n");
  }
  return out;
}

}  // namespace

std::string StartMethodsText(const PickleLook& look, const StartCostFacts& facts) {
  std::string out = absl::StrCat(Headline(look), "\n");
  if (look.root.empty()) return out;
  absl::StrAppend(&out, "\n  judged: ", Printable(look.root), ", ", Plural(look.objects, "object"),
                  look.capped ? " (stopped at the limit)" : "",
                  look.unreadable > 0 ? absl::StrCat(", ", HumanCount(look.unreadable), " unreadable") : "",
                  look.refused > 0 ? absl::StrCat(", ", Plural(look.refused, "finding"), " not confirmed") : "", "\n");
  size_t shown = 0;
  for (const PickleFailure& failure : look.failures) {
    if (++shown > kRows) break;
    absl::StrAppend(&out, "\n  ", shown == 1 ? "first: " : "", Printable(failure.path, kLongestPath),
                    failure.count > 1 ? absl::StrCat(" (and ", HumanCount(failure.count - 1), " more like it)") : "",
                    failure.below_unknown ? "  possible" : "", "\n      type: ", Printable(failure.type),
                    "\n      why:  ", ReasonOf(failure),
                    failure.defined_at.empty() ? "" : absl::StrCat("; defined at ", Printable(failure.defined_at)),
                    "\n      do:   ", FixOf(failure), "\n");
  }
  const uint64_t more = look.failures.size() - std::min(shown, look.failures.size()) + look.failures_left_out;
  if (more > 0) absl::StrAppend(&out, "\n  and ", Plural(more, "failure"), " more\n");
  shown = 0;
  for (const PickleUnknown& unknown : look.unknowns) {
    if (++shown > kRows) break;
    absl::StrAppend(&out, "\n  may fail: ", Printable(unknown.path, kLongestPath),
                    unknown.count > 1 ? absl::StrCat(" (and ", HumanCount(unknown.count - 1), " more like it)") : "",
                    "\n      type: ", Printable(unknown.type), "\n      decided by: ", Printable(unknown.runs), "\n");
  }
  out += CostTable(look, facts);
  return out;
}

}  // namespace cowprof
