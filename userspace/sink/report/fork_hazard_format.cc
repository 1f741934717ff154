#include "sink/report/fork_hazard_format.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/format.h"
#include "model/judge/fork_hazards.h"

namespace cowprof {

std::string BeforeForkText(const ForkHazardSeen& seen, const std::string& start_methods, bool unread) {
  const size_t others = seen.threads.size() + seen.threads_left_out;
  if (others == 0 && !seen.cuda) return "  a fork now: there is no other thread that would stay behind\n";
  std::string out = absl::StrCat("  a fork now: ", Plural(others, "other thread"), " would stay behind\n");
  for (const std::string& line : ThreadLines(seen)) absl::StrAppend(&out, "      ", line, "\n");
  const std::vector<std::string> pools = PoolsOf(seen);
  if (!pools.empty()) absl::StrAppend(&out, "      pools: ", absl::StrJoin(pools, ", "), "\n");
  const std::vector<Hazard> hazards = HazardsOf(seen);
  for (const Hazard& hazard : hazards) {
    absl::StrAppend(&out, "      may hang: ", hazard.what, ": ", hazard.effect, "\n");
    for (const std::string& advice : hazard.advice) absl::StrAppend(&out, "      do: ", advice, "\n");
  }
  if (unread) {
    out += "      unknown: which of them are Python's, and whether they hold its locks: this build's can't be read\n";
  }
  if (hazards.empty() && unread) return out;
  if (hazards.empty()) {
    out += "      nothing is known of them that would hang a child\n";
  } else {
    absl::StrAppend(&out, "      do: ", OtherStartMethods(start_methods), "\n");
  }
  return out;
}

}  // namespace cowprof
