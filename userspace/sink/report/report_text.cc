// The verdict in words, for a person in a hurry: first what happened, then per worker, then the limits, then how sure
// it is.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/alert_words.h"
#include "model/diagnosis.h"
#include "model/forecast.h"
#include "model/post_mortem.h"
#include "model/words.h"
#include "sink/report.h"
#include "sink/report_blame.h"
#include "sink/shm_text.h"

namespace cowprof {
namespace {

constexpr size_t kWorkerLines = 32;

std::string CopiedBytes(const ProcessGrowth& process, uint64_t page_bytes) {
  return process.counts.copies ? HumanBytes(*process.counts.copies * page_bytes) : "-";
}

std::string ProcessLine(const ProcessGrowth& process, const Growth& growth) {
  const uint64_t page_bytes = growth.info.page_bytes;
  return absl::StrFormat("  %-10s %8d %12s %11s %11s %11s %12s  %s\n", NameOf(process.role), process.id.pid,
                         HumanCount(process.counts.copies), CopiedBytes(process, page_bytes),
                         HumanBytes(process.private_bytes), HumanBytes(process.peak_private_bytes),
                         HumanBytes(process.still_shared_bytes), PostMortemOf(process, growth).text);
}

std::string LimitLine(const LimitGrowth& limit) {
  const auto figure = [&](const Count& value) {
    return limit.now.counts_bytes() ? HumanBytes(value) : HumanCount(value);
  };
  const std::string ratio = limit.now.ratio() ? absl::StrFormat("%.0f %%", 100 * *limit.now.ratio()) : "no limit";
  return absl::StrFormat("  %-14s %-24s %11s of %11s  %s (peak %s)\n", NameOf(limit.now.kind),
                         Printable(limit.now.name, 60), figure(limit.now.used), figure(limit.now.limit), ratio,
                         figure(limit.peak));
}

// Those that copied most.
std::vector<const ProcessGrowth*> TopWorkers(const Growth& growth) {
  std::vector<const ProcessGrowth*> workers;
  for (const ProcessGrowth& process : growth.processes) {
    if (process.index > 0) workers.push_back(&process);
  }
  std::stable_sort(workers.begin(), workers.end(), [](const ProcessGrowth* a, const ProcessGrowth* b) {
    return a->counts.copies.value_or(0) > b->counts.copies.value_or(0);
  });
  return workers;
}

}  // namespace

const LimitGrowth* NearestLimit(const Growth& growth) {
  const LimitGrowth* nearest = nullptr;
  for (const LimitGrowth& limit : growth.limits) {
    if (limit.now.ratio() && (nearest == nullptr || *limit.now.ratio() > *nearest->now.ratio())) nearest = &limit;
  }
  return nearest;
}

std::string LimitSentence(const LimitGrowth& limit) {
  const Count bound = limit.now.limit;
  return absl::StrFormat("Nearest limit: %s, %.0f %% of %s used.", LimitWords(limit.now),
                         100 * limit.now.ratio().value_or(0),
                         limit.now.counts_bytes() ? HumanBytes(bound) : HumanCount(bound));
}

std::string ExactnessText(Exactness exactness) {
  switch (exactness) {
    case Exactness::kExact:
      return "every copy counted";
    case Exactness::kUpperBound:
      return "at most this many copies";
    case Exactness::kSampled:
      return "copies estimated from samples";
    case Exactness::kPageMap:
      return "copied pages as the page map shows them at each sample";
    case Exactness::kUnavailable:
      return "copies could not be counted";
  }
  return "";
}

std::string LossesText(const Losses& losses) {
  const std::pair<uint64_t, const char*> kinds[] = {{losses.events_dropped, "event"},
                                                    {losses.processes_dropped, "process"},
                                                    {losses.unattributed_copies, "unattributed page"},
                                                    {losses.regions_dropped, "region"},
                                                    {losses.unclassified_copies, "unclassified page"},
                                                    {losses.unplaced_copies, "unplaced page"},
                                                    {losses.pages_dropped, "page of the map"},
                                                    {losses.threads_refused, "unseen fault"},
                                                    {losses.probes_skipped, "skipped probe"},
                                                    {losses.unreadable, "read"},
                                                    {losses.records_dropped, "sample"}};
  std::vector<std::string> parts;
  for (const auto& [count, name] : kinds) {
    if (count > 0)
      parts.push_back(absl::StrCat(HumanCount(count), " ", name,
                                   count == 1                       ? ""
                                   : name == std::string("process") ? "es"
                                                                    : "s"));
  }
  return absl::StrJoin(parts, ", ");
}

std::string CopiesSentence(const Growth& growth) {
  const uint64_t page_bytes = growth.info.page_bytes;
  if (growth.target() == nullptr) return "Nothing was recorded.";
  const Totals workers = SumOf(growth, /*living_only=*/false, /*workers_only=*/true);
  const Totals living = SumOf(growth, /*living_only=*/true, /*workers_only=*/true);
  if (workers.processes == 0) {
    return absl::StrCat("No worker was forked; the target copied ", CopiedBytes(*growth.target(), page_bytes),
                        " itself.");
  }
  if (!workers.copies_known) {
    return absl::StrCat(Plural(workers.processes, "worker"), " ended before ", workers.processes == 1 ? "its" : "their",
                        " pages were looked at: what was copied is not known.");
  }
  // What a worker copied before cowprof came is in its private memory, not in the count.
  const bool late = std::any_of(growth.processes.begin(), growth.processes.end(), [](const ProcessGrowth& process) {
    return process.role == Role::kWorker && process.origin == Origin::kFoundAtAttach;
  });
  std::string sentence =
      absl::StrCat(Plural(workers.processes, "worker"), " copied ", HumanBytes(workers.copies * page_bytes),
                   " of memory shared with the parent", late ? " since cowprof attached" : "");
  std::vector<std::string> memory;
  if (growth.peak_workers_private_bytes > 0) {
    memory.push_back(
        absl::StrCat("at most ", HumanBytes(growth.peak_workers_private_bytes), " was private to them at once"));
  }
  if (living.still_shared_bytes > 0) {
    memory.push_back(absl::StrCat(HumanBytes(living.still_shared_bytes), " is still shared and can be copied, too"));
  }
  if (!memory.empty()) absl::StrAppend(&sentence, ": ", absl::StrJoin(memory, "; "));
  return sentence + ".";
}

std::string Verdict(const Growth& growth) {
  std::vector<std::string> sentences = {CopiesSentence(growth)};
  if (std::string finding = TopFinding(growth); !finding.empty()) sentences.push_back(std::move(finding));
  if (const LimitGrowth* nearest = NearestLimit(growth)) sentences.push_back(LimitSentence(*nearest));
  if (growth.target() != nullptr) sentences.push_back(absl::StrCat("Forecast: ", ForecastOf(growth).sentence, "."));
  return absl::StrJoin(sentences, " ");
}

std::string ReportText(const Growth& growth, bool complete) {
  std::string out = absl::StrCat(Verdict(growth), "\n\n");
  absl::StrAppendFormat(&out, "  %-10s %8s %12s %11s %11s %11s %12s  %s\n", "", "pid", "copies", "copied", "private",
                        "peak", "still shared", "end");
  if (growth.target() != nullptr) out += ProcessLine(*growth.target(), growth);
  const std::vector<const ProcessGrowth*> workers = TopWorkers(growth);
  for (size_t i = 0; i < std::min(workers.size(), kWorkerLines); ++i) out += ProcessLine(*workers[i], growth);
  uint64_t others = workers.size() - std::min(workers.size(), kWorkerLines);
  for (const ProcessGrowth& row : growth.folded) others += row.stands_for;
  if (others > 0) absl::StrAppend(&out, "  ... and ", others, " more that copied less\n");
  out += BlameText(growth);
  if (!growth.limits.empty()) out += "\n  limits\n";
  for (const LimitGrowth& limit : growth.limits) out += LimitLine(limit);
  if (!growth.alerts.empty()) out += "\n  alerts\n";
  for (const Alert& alert : growth.alerts)
    absl::StrAppend(&out, "  ", HumanDuration(alert.t), "  ", AlertLine(alert), "\n");
  out += ShmSection(growth);
  absl::StrAppend(&out, "\n  ", ExactnessText(growth.info.exactness), " (", Printable(growth.info.rung), "), ",
                  HumanDuration(growth.t), ", ", Plural(growth.samples, "sample"),
                  "; target: ", Printable(growth.info.command), "\n");
  const std::string losses = LossesText(growth.losses);
  if (!losses.empty()) absl::StrAppend(&out, "  lost: ", losses, "\n");
  if (!complete) out += "  This recording has no end: it still runs, was killed, or the file was cut off.\n";
  return out;
}

}  // namespace cowprof
