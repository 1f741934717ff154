// `cowprof export FORMAT TIMELINE [-o FILE]`: writes a recording in the format of another tool.
#include "sink/export/export.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/commands.h"
#include "cli/fleet_files.h"
#include "model/format.h"
#include "posix/output_file.h"
#include "sink/export/copies.h"
#include "sink/export/perfetto_trace.h"
#include "timeline/timeline_file.h"

namespace cowprof {
namespace {

absl::StatusOr<std::string> Exported(ExportFormat format, const std::string& timeline) {
  Run run;
  CsvTable table;
  PerfettoTrace trace;
  const absl::StatusOr<TimelineContents> contents =
      ReadTimeline(timeline, {[&](const RunInfo& info) { run.model.info = info; },
                              [&](const Sample& sample, const std::vector<Alert>& raised) {
                                Append(sample, raised, &run);
                                if (format == ExportFormat::kCsv) table.Add(sample, run.model);
                                if (format == ExportFormat::kPerfetto) trace.Add(sample, raised, run.model);
                              }});
  if (!contents.ok()) return contents.status();
  const bool of_stacks = format != ExportFormat::kPerfetto && format != ExportFormat::kCsv;
  if (of_stacks && CopiesOf(run.model).empty())
    Fail(kDone, absl::StrCat("no copies were counted in ", Printable(timeline, 400), ": the export has no stacks"));
  switch (format) {
    case ExportFormat::kPprof:
      return PprofProfile(run.model);
    case ExportFormat::kPerfetto:
      return trace.Finish(run.model, Judge(run, Detail::kScreen));
    case ExportFormat::kSpeedscope:
      return SpeedscopeJson(run.model, std::filesystem::path(timeline).filename());
    case ExportFormat::kFolded:
      return FoldedStacks(run.model);
    case ExportFormat::kCsv:
      return table.text();
  }
  return "";
}

}  // namespace

int ExportRecording(const Options& options) {
  if (const absl::Status status = CheckIsNotRead(options.output, {options.timeline}); !status.ok())
    return Fail(kUsage, status.message());
  const absl::StatusOr<std::string> bytes = Exported(options.export_format, options.timeline);
  if (!bytes.ok()) return Fail(kUsage, bytes.status().message());
  if (options.output == "-") return PrintToStdout(*bytes);
  const std::string path = options.output.empty() ? absl::StrCat(absl::StripSuffix(options.timeline, ".json"),
                                                                 ExtensionOf(options.export_format))
                                                  : options.output;
  if (const absl::Status status = ReplaceOutputFile(path, *bytes); !status.ok())
    return Fail(kCannotWrite, status.message());
  return PrintToStdout(absl::StrCat(path, "\n"));
}

}  // namespace cowprof
