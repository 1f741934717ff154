// `cowprof report TIMELINE [--json]`: reads a recording, prints the verdict.
#include "sink/report/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "sink/terminal/print_report.h"
#include "timeline/json_fields.h"
#include "timeline/timeline_file.h"

namespace cowprof {

int Report(const Options& options) {
  Run run;
  const absl::StatusOr<TimelineContents> contents = ReadRun(options.timeline, &run);
  if (!contents.ok()) return Fail(kUsage, contents.status().message());
  const Findings findings = Judge(run);
  const std::string text = options.json ? Dump(ReportJson(run.model, findings), 2) + "\n"
                                        : ReportText(run.model, findings, contents->complete);
  const bool printed = options.json ? std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0
                                    : PrintReport(text, options.colour, stdout);
  if (!printed) return Fail(kCannotWrite, "write the report to stdout: failed");
  return kDone;
}

}  // namespace cowprof
