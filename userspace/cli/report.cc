// `cowprof report TIMELINE [--json]`: reads a recording, prints the verdict. Of several recordings of a job, or of a
// folder: one verdict on all.
#include "sink/report/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/fleet_files.h"
#include "sink/report/fleet_report.h"
#include "sink/terminal/print_report.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

int Print(const Options& options, const std::string& text) {
  return PrintToStdout(options.json ? text : LaidOut(text, options.colour, stdout));
}

int ReportFleet(const Options& options) {
  const absl::StatusOr<FleetFiles> files = ReadFleet(options.timelines);
  if (!files.ok()) return Fail(kUsage, files.status().message());
  const int status = Print(options, options.json ? Dump(FleetJson(files->fleet), 2) + "\n" : FleetText(files->fleet));
  return status == kDone && !files->problem.empty() ? Fail(kUsage, files->problem) : status;
}

}  // namespace

int Report(const Options& options) {
  if (options.timelines.size() > 1 || IsFolder(options.timelines.front())) return ReportFleet(options);
  WholeRecording recording;
  if (const absl::Status status = ReadRecording(options.timelines.front(), {}, &recording); !status.ok())
    return Fail(kUsage, status.message());
  const RunModel& model = recording.run.model;
  Findings findings = Judge(recording.run);
  Fleet ranks;
  if (TellsRanksApart(recording)) {
    absl::StatusOr<std::vector<FleetRow>> rows = RowsOf(recording, findings);
    if (!rows.ok()) return Fail(kUsage, rows.status().message());
    ranks = FleetOf(*std::move(rows));
  }
  if (!recording.complete) TellThatItHasNoEnd(model, &findings);  // after the rows, which say it themselves
  if (options.json) {
    nlohmann::ordered_json report = ReportJson(model, findings, recording.complete);
    if (!ranks.rows.empty()) report["ranks"] = FleetRowsJson(ranks);
    return Print(options, Dump(report, 2) + "\n");
  }
  std::string text = ReportText(model, findings, recording.complete);
  if (!ranks.rows.empty()) absl::StrAppend(&text, "\n  ranks\n", FleetRowsText(ranks));
  return Print(options, text);
}

}  // namespace cowprof
