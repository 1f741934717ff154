// See diagnosis_facts.h.
#include "model/diagnosis_facts.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/fold.h"
#include "model/words.h"

namespace cowprof {

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

std::string Facts::Bytes(uint64_t pages) const { return HumanBytes(pages * page_bytes); }

bool Facts::HasWorkers() const { return SumOf(growth, /*living_only=*/false, /*workers_only=*/true).processes > 0; }

// What was spawned copies pages of its libraries when it loads them, and inherited nothing.
bool HasInheritedMemory(const ProcessGrowth& process) {
  const bool spawned = (process.execed || process.origin == Origin::kFoundAtAttach) &&
                       absl::StrContains(process.command, "--multiprocessing-fork");
  return process.role == Role::kWorker && process.causes && !spawned;
}

Facts FactsOf(const Growth& growth) {
  Facts facts = {.growth = growth,
                 .page_bytes = growth.info.page_bytes,
                 .blame = BlameOf(growth, {.workers_only = true}),
                 .forecast = ForecastOf(growth)};
  ForEachRow(growth, [&](const ProcessGrowth& process) {
    if (!HasInheritedMemory(process)) return;
    uint64_t copies = 0;
    for (int cause = 0; cause < kCauses; ++cause) {
      facts.causes[cause] += (*process.causes)[cause];
      copies += (*process.causes)[cause];
    }
    facts.copies += copies;
    if (process.index < 0) return;  // a row of many
    facts.most_of_one = std::max(facts.most_of_one, copies);
    if (copies * facts.page_bytes > kNoiseBytes) facts.pids.push_back(process.id.pid);
  });
  return facts;
}

std::string LineText(const Frame& frame) {
  if (frame.file.empty()) return "";
  return absl::StrCat(Printable(frame.file), ":", frame.line, " in ", Printable(frame.function));
}

}  // namespace cowprof
