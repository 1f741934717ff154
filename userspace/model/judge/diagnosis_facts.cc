#include "model/judge/diagnosis_facts.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/facts/ended_aggregate.h"
#include "model/format.h"

namespace cowprof {

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

std::string Facts::Bytes(uint64_t pages) const { return HumanBytes(pages * page_bytes); }

bool Facts::HasWorkers() const { return findings.workers.processes > 0; }

// A spawned worker inherited nothing; it copies pages of its libraries when it loads them.
bool HasInheritedMemory(const ProcessModel& process) {
  const bool spawned = (process.execed || process.origin == Origin::kFoundAtAttach) &&
                       absl::StrContains(process.command, "--multiprocessing-fork");
  return process.role == Role::kWorker && process.causes && !spawned;
}

Facts FactsOf(const Run& run, const Findings& findings) {
  Facts facts = {
      .model = run.model, .estimates = run.estimates, .findings = findings, .page_bytes = run.model.info.page_bytes};
  ForEachRow(run.model, [&](const ProcessModel& process) {
    if (!HasInheritedMemory(process)) return;
    const uint64_t copies = Sum(*process.causes);
    Add(*process.causes, &facts.causes);
    facts.copies += copies;
    if (process.index < 0) return;  // an aggregate
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
