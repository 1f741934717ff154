// `cowprof report TIMELINE [--json]`: reads a recording, prints the verdict.
#include "sink/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "sink/timeline_file.h"

namespace cowprof {

int Report(const Options& options) {
  Growth growth;
  const absl::StatusOr<TimelineContents> contents = ReadGrowth(options.timeline, &growth);
  if (!contents.ok()) return Fail(kUsage, contents.status().message());
  const std::string text =
      options.json ? ReportJson(growth).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
                   : ReportText(growth, contents->complete);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    return Fail(kCannotWrite, "write the report to stdout: failed");
  return kDone;
}

}  // namespace cowprof
