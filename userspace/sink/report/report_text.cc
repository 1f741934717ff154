// The verdict in words, for a reader in a hurry: first what happened, then the processes, the causes and the limits,
// last how exact the figures are.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/judge/alert_format.h"
#include "model/judge/start_methods.h"
#include "model/saturating.h"
#include "sink/report/remedies_format.h"
#include "sink/report/report.h"
#include "sink/report/report_blame.h"
#include "sink/report/shm_format.h"

namespace cowprof {
namespace {

constexpr size_t kWorkerLines = 32;
constexpr uint64_t kSmallHelper = 1 << 20;  // bytes

std::string CopiedBytes(const ProcessModel& process, uint64_t page_bytes) {
  return process.counts.copies ? HumanBytes(*process.counts.copies * page_bytes) : "-";
}

std::string ProcessLine(const ProcessModel& process, const std::string& label, uint64_t page_bytes,
                        const PostMortem& end) {
  return absl::StrFormat("  %s %8d %12s %11s %11s %11s %12s  %s\n", label, process.id.pid,
                         HumanCount(process.counts.copies), CopiedBytes(process, page_bytes),
                         HumanBytes(process.private_bytes), HumanBytes(process.peak_private_bytes),
                         HumanBytes(process.still_shared_bytes), end.text);
}

std::string LimitLine(const LimitModel& limit) {
  const auto figure = [&](const Count& value) { return HumanAmount(limit.now.kind, value); };
  const std::string ratio = limit.now.ratio() ? absl::StrFormat("%.0f %%", 100 * *limit.now.ratio()) : "no limit";
  return absl::StrFormat("  %-14s %-24s %11s of %11s  %s (peak %s)\n", NameOf(limit.now.kind),
                         Printable(limit.now.name, 60), figure(limit.now.used), figure(limit.now.limit), ratio,
                         figure(limit.peak));
}

// A shell's children, or a compiler's: come and gone, and of no consequence. What other programs exit with is theirs.
bool IsSmallHelper(const ProcessModel& process, const RunModel& model) {
  const bool ended_well = process.exit && !process.exit->signaled && (process.exit->code == 0 || process.execed);
  return (process.role == Role::kHelper || process.role == Role::kOther) && ended_well &&
         process.counts.copies.value_or(0) * model.info.page_bytes < kSmallHelper &&
         process.peak_private_bytes.value_or(0) < kSmallHelper;
}

// All processes but the target, those that copied most first.
std::vector<const ProcessModel*> TopWorkers(const RunModel& model) {
  std::vector<const ProcessModel*> workers;
  for (const ProcessModel& process : model.processes) {
    if (process.index > 0 && !IsSmallHelper(process, model)) workers.push_back(&process);
  }
  std::stable_sort(workers.begin(), workers.end(), [](const ProcessModel* a, const ProcessModel* b) {
    return a->counts.copies.value_or(0) > b->counts.copies.value_or(0);
  });
  return workers;
}

}  // namespace

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
  const std::pair<uint64_t, const char*> kinds[] = {{losses.events_dropped, "events dropped"},
                                                    {losses.processes_dropped, "processes dropped"},
                                                    {losses.unattributed_copies, "copies without a process"},
                                                    {losses.regions_dropped, "regions dropped"},
                                                    {losses.unclassified_copies, "copies without a cause"},
                                                    {losses.unplaced_copies, "copies without a line"},
                                                    {losses.unplaced_new_pages, "new pages without a line"},
                                                    {losses.heaps_dropped, "forks with free memory not noted"},
                                                    {losses.pages_dropped, "pages not on the map"},
                                                    {losses.threads_refused, "faults not seen"},
                                                    {losses.probes_skipped, "probe runs skipped"},
                                                    {losses.unreadable, "failed reads"},
                                                    {losses.records_dropped, "samples not written"}};
  std::vector<std::string> parts;
  for (const auto& [count, name] : kinds) {
    if (count > 0) parts.push_back(absl::StrCat(name, ": ", HumanCount(count)));
  }
  return absl::StrJoin(parts, "; ");
}

std::vector<std::string> Warnings(const Losses& losses, bool complete) {
  std::vector<std::string> warnings;
  if (!complete) warnings.push_back(absl::StrCat("This recording", kHasNoEnd));
  const std::string lost = LossesText(losses);
  if (lost.empty()) return warnings;
  const bool counts = losses.lost_events() > 0, peaks = losses.records_dropped > 0;
  const char* too_low = counts ? peaks ? "Counts and peaks" : "Counts" : peaks ? "Peaks" : "";
  warnings.push_back(absl::StrCat("Losses while recording: ", lost, ".",
                                  *too_low ? absl::StrCat(" ", too_low, " may be too low.") : ""));
  return warnings;
}

// One line: `cowprof pickle` has the table.
std::string StartMethodsSection(const RunModel& model, Framework framework) {
  const SeenStartMethods* const seen = SentToWorkers(model, framework);
  const std::string sentence = seen != nullptr ? StartMethodsSentence(seen->look) : "";
  if (sentence.empty()) {
    const std::string why = WhyNotJudged(model.target() != nullptr ? model.target()->python : "");
    return why.empty() ? "" : absl::StrCat("\n  start methods: not judged: ", why, "\n");
  }
  return absl::StrCat("\n  start methods: ", sentence, "; judged: ", Printable(seen->look.root), "\n");
}

std::string ReportText(const RunModel& model, const Findings& findings, bool complete) {
  std::string out = absl::StrCat(findings.verdict, "\n", RemedyText(findings), "\n");
  const std::vector<const ProcessModel*> workers = TopWorkers(model);
  size_t width = 10;
  for (size_t i = 0; i < std::min(workers.size(), kWorkerLines); ++i)
    width = std::max(width, LabelOf(*workers[i], model).size());
  const auto padded = [&](std::string label) {
    label.resize(width, ' ');
    return label;
  };
  const auto line = [&](const ProcessModel& process) {
    return ProcessLine(process, padded(LabelOf(process, model)), model.info.page_bytes, findings.EndOf(process));
  };
  absl::StrAppendFormat(&out, "  %s %8s %12s %11s %11s %11s %12s  %s\n", padded(""), "pid", "copies", "copied",
                        "private", "peak", "still shared", "end");
  if (model.target() != nullptr) out += line(*model.target());
  for (size_t i = 0; i < std::min(workers.size(), kWorkerLines); ++i) out += line(*workers[i]);
  const size_t small = model.processes.size() - (model.target() != nullptr) - workers.size();
  uint64_t others = SaturatingSubtract(workers.size(), kWorkerLines) + small;
  for (const ProcessModel& row : model.ended_aggregates) others += row.stands_for;
  if (others > 0) absl::StrAppend(&out, "  ... and ", others, " more\n");
  absl::StrAppend(&out, BlameText(model, findings), FindingsText(findings));
  out += RemediesText(findings.remedies);
  if (!model.limits.empty()) out += "\n  limits\n";
  for (const LimitModel& limit : model.limits) out += LimitLine(limit);
  if (!findings.alerts.empty()) out += "\n  alerts\n";
  for (const Alert& alert : findings.alerts)
    absl::StrAppend(&out, "  ", HumanDuration(alert.t), "  ", AlertLine(alert), "\n");
  out += ShmSection(model);
  out += StartMethodsSection(model, findings.framework);
  absl::StrAppend(&out, "\n  ", ExactnessText(model.info.exactness), " (", Printable(model.info.rung), "), ",
                  HumanDuration(model.t), ", ", Plural(model.samples, "sample"),
                  "; target: ", Printable(model.info.command), "\n");
  const std::string losses = LossesText(model.losses);
  if (!losses.empty()) absl::StrAppend(&out, "  losses: ", losses, "\n");
  if (!complete) absl::StrAppend(&out, "  This recording", kHasNoEnd, "\n");
  return out;
}

}  // namespace cowprof
