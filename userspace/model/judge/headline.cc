// Formats what was judged as the sentences of a verdict.
#include "model/judge/headline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/findings.h"

namespace cowprof {
namespace {

const char* WordsOf(Cause cause) {
  constexpr const char* kWords[] = {
      "reference counts",           "the collector's headers", "pymalloc's bookkeeping",
      "self-specialising bytecode", "cached hashes",           "data",
      "released objects",           "writes by the kernel",    "unknown",
  };
  return kWords[static_cast<int>(cause)];
}

std::string CopiedBytes(const ProcessModel& process, uint64_t page_bytes) {
  return process.counts.copies ? HumanBytes(*process.counts.copies * page_bytes) : "-";
}

// Says how much the workers copied or, if there are none, the target.
std::string CopiesSentence(const RunModel& model, const Findings& findings) {
  const uint64_t page_bytes = model.info.page_bytes;
  if (model.target() == nullptr) return "Nothing was recorded.";
  const Totals &workers = findings.workers, &living = findings.living_workers;
  if (workers.processes == 0) {
    return absl::StrCat("No worker was forked; the target copied ", CopiedBytes(*model.target(), page_bytes),
                        " itself.");
  }
  if (!workers.copies_known) {
    return absl::StrCat(Plural(workers.processes, "worker"), " ended before ", workers.processes == 1 ? "its" : "their",
                        " pages were examined: what was copied is unknown.");
  }
  // What a worker copied before cowprof attached is in its private memory, not in the count.
  const bool late = std::any_of(model.processes.begin(), model.processes.end(), [](const ProcessModel& process) {
    return process.role == Role::kWorker && process.origin == Origin::kFoundAtAttach;
  });
  std::string sentence =
      absl::StrCat(Plural(workers.processes, "worker"), " copied ", HumanBytes(workers.copies * page_bytes),
                   " of memory shared with the parent", late ? " since cowprof attached" : "");
  std::vector<std::string> memory;
  if (model.peak_workers_private_bytes > 0) {
    memory.push_back(
        absl::StrCat("at most ", HumanBytes(model.peak_workers_private_bytes), " was private to them at once"));
  }
  if (living.still_shared_bytes > 0) {
    memory.push_back(absl::StrCat(HumanBytes(living.still_shared_bytes), " is still shared and can be copied, too"));
  }
  if (!memory.empty()) absl::StrAppend(&sentence, ": ", absl::StrJoin(memory, "; "));
  return sentence + ".";
}

// "Nearest limit: the host's memory, 6 % of 23.5 GiB used."
std::string LimitSentence(const LimitModel& limit) {
  const Count bound = limit.now.limit;
  return absl::StrFormat("Nearest limit: %s, %.0f %% of %s used.", FormatLimit(limit.now),
                         100 * limit.now.ratio().value_or(0), HumanAmount(limit.now.kind, bound));
}

}  // namespace

std::string LargestGroup(const RunModel& model, const Blame& workers) {
  if (workers.copies * model.info.page_bytes <= kNoiseBytes) return "";
  std::map<std::tuple<Cause, std::string, std::string>, double> groups;
  for (const CopySiteShare& share : workers.copy_sites) {
    const CopySite& copy_site = model.copy_sites[share.copy_site];
    Frame frame = copy_site.frames.empty() ? Frame{} : model.frames[copy_site.frames.front()];
    frame.file.erase(0, frame.file.rfind('/') + 1);  // one sentence has no room for the folder
    groups[{copy_site.cause, copy_site.type, LineText(frame)}] += share.copies;
  }
  const auto largest =
      std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest == groups.end()) return "";
  const auto& [cause, type, line] = largest->first;
  return absl::StrCat(Percent(largest->second / workers.copies), " of ",
                      HumanBytes(workers.copies * model.info.page_bytes), ": ", WordsOf(cause),
                      type.empty() ? "" : absl::StrCat(" of ", Printable(type)),
                      line.empty() ? "" : absl::StrCat(", at ", line), workers.estimated ? " (estimated)." : ".");
}

std::string Verdict(const RunModel& model, const Findings& findings) {
  std::vector<std::string> sentences = {CopiesSentence(model, findings)};
  if (!findings.largest_group.empty()) sentences.push_back(findings.largest_group);
  if (findings.nearest_limit >= 0) sentences.push_back(LimitSentence(model.limits[findings.nearest_limit]));
  if (model.target() != nullptr) sentences.push_back(absl::StrCat("Forecast: ", findings.forecast.sentence, "."));
  return absl::StrJoin(sentences, " ");
}

}  // namespace cowprof
