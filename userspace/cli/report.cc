// `cowprof report TIMELINE [--json]`: reads a recording, prints the verdict.
#include "sink/report/report.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "model/facts/roles.h"
#include "sink/report/fleet_report.h"
#include "sink/terminal/print_report.h"
#include "timeline/json_fields.h"
#include "timeline/timeline_file.h"

namespace cowprof {

int Report(const Options& options) {
  std::error_code error;
  if (options.timelines.size() > 1 || std::filesystem::is_directory(options.timelines.front(), error))
    return ReportFleet(options);
  Run run;
  const absl::StatusOr<TimelineContents> contents = ReadRun(options.timelines.front(), &run);
  if (!contents.ok()) return Fail(kUsage, contents.status().message());
  const Findings findings = Judge(run);
  Fleet ranks;
  if (HasRanks(run.model)) {
    absl::StatusOr<Fleet> fleet = ReadFleet(options.timelines.front());
    if (!fleet.ok()) return Fail(kUsage, fleet.status().message());
    ranks = *std::move(fleet);
  }
  std::string text;
  if (options.json) {
    nlohmann::ordered_json report = ReportJson(run.model, findings);
    if (!ranks.rows.empty()) report["ranks"] = FleetRowsJson(ranks);
    text = Dump(report, 2) + "\n";
  } else {
    text = ReportText(run.model, findings, contents->complete);
    if (!ranks.rows.empty()) absl::StrAppend(&text, "\n  ranks\n", FleetRowsText(ranks));
  }
  const bool printed = options.json ? std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0
                                    : PrintReport(text, options.colour, stdout);
  if (!printed) return Fail(kCannotWrite, "write the report to stdout: failed");
  return kDone;
}

}  // namespace cowprof
