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
      return absl::StrCat("spawn and forkserver will fail: ", Printable(first->path, kLongestPath), " is a ",
                          Printable(first->type), ".");
    }
    case PickleVerdict::kNoObstacleFound:
      return absl::StrCat("No obstacle found to spawn or forkserver for ", what, ".");
    case PickleVerdict::kUnknown:
      break;
  }
  return absl::StrCat("Whether spawn or forkserver would work is unknown: ", WhyUnknown(look), ".");
}

}  // namespace

std::string StartMethodsText(const PickleLook& look, const Count& fork_bytes) {
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
                    "\n      type: ", Printable(unknown.type), "\n      runs: ", Printable(unknown.runs), "\n");
  }
  const bool fails = VerdictOf(look) == PickleVerdict::kWillFail;
  const std::string each = fails ? "fails" : SentText(look);
  absl::StrAppendFormat(&out, "\n  %-12s %-28s %s\n", "start", "each worker is sent", "and can copy at most");
  absl::StrAppendFormat(&out, "  %-12s %-28s %s\n", "fork", "nothing", HumanBytes(fork_bytes));
  absl::StrAppendFormat(&out, "  %-12s %-28s %s\n", "spawn", each, "nothing of this process");
  absl::StrAppendFormat(&out, "  %-12s %-28s %s\n", "forkserver", each, "what the server preloaded");
  if (fails) absl::StrAppend(&out, "  with all that fails dropped: ", SentText(look), " to each worker\n");
  return out;
}

}  // namespace cowprof
