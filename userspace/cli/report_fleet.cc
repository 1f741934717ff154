// `cowprof report A B C...`, or of a folder: one verdict on several recordings of a job. A recording of a launcher with
// several ranks is read twice: once to learn who belongs to which rank, once to judge each of them.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "sink/report/fleet_report.h"
#include "sink/terminal/print_report.h"
#include "timeline/json_fields.h"
#include "timeline/timeline_file.h"

namespace cowprof {
namespace {

// Appends a row for each of these ranks of one recording.
absl::Status ReadRanks(const std::string& path, const std::vector<RanksApart::Rank>& ranks,
                       std::vector<FleetRow>* rows) {
  std::vector<Run> runs(ranks.size());
  const absl::StatusOr<TimelineContents> contents =
      ReadTimeline(path, {[&](const RunInfo& info) {
                            for (Run& run : runs) {
                              run.model.info = info;
                              run.model.is_part = true;
                            }
                          },
                          [&](const Sample& sample, const std::vector<Alert>& raised) {
                            for (size_t i = 0; i < runs.size(); ++i) {
                              const std::vector<bool>& others = ranks[i].others;
                              Append(Without(others, sample), Without(others, raised), &runs[i]);
                            }
                          }});
  if (!contents.ok()) return contents.status();
  for (Run& run : runs) {
    rows->push_back(RowOf(path, run, Judge(run, Detail::kScreen), contents->complete));
  }
  return absl::OkStatus();
}

// Appends the rows of one recording.
absl::Status ReadRows(const std::string& path, std::vector<FleetRow>* rows) {
  Run run;
  RanksApart apart;
  const absl::StatusOr<TimelineContents> contents =
      ReadTimeline(path, {[&](const RunInfo& info) { run.model.info = info; },
                          [&](const Sample& sample, const std::vector<Alert>& raised) {
                            apart.Add(sample);
                            Append(sample, raised, &run);
                          }});
  if (!contents.ok()) return contents.status();
  const std::vector<RanksApart::Rank> ranks = apart.Of(run.model);
  if (!ranks.empty()) return ReadRanks(path, ranks, rows);
  rows->push_back(RowOf(path, run, Judge(run, Detail::kScreen), contents->complete));
  return absl::OkStatus();
}

struct Operand {
  std::string path;
  bool from_folder = false;
};

// The files named `*.json` of each folder, in order of their names, and what was named itself.
std::vector<Operand> Operands(const std::vector<std::string>& paths) {
  std::vector<Operand> operands;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      operands.push_back({path});
      continue;
    }
    std::vector<std::string> files;
    for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
      if (entry->path().extension() == ".json") files.push_back(entry->path());
    }
    std::sort(files.begin(), files.end());
    for (std::string& file : files) operands.push_back({std::move(file), true});
  }
  return operands;
}

}  // namespace

absl::StatusOr<Fleet> ReadFleet(const std::string& path) {
  std::vector<FleetRow> rows;
  if (const absl::Status status = ReadRows(path, &rows); !status.ok()) return status;
  return FleetOf(std::move(rows));
}

int ReportFleet(const Options& options) {
  std::vector<FleetRow> rows;
  std::string problem;
  size_t skipped = 0;
  for (const Operand& operand : Operands(options.timelines)) {
    const absl::Status status = ReadRows(operand.path, &rows);
    if (status.ok()) continue;
    // A folder may have other files; what was named must be a recording.
    if (operand.from_folder) {
      ++skipped;
    } else if (problem.empty()) {
      problem = std::string(status.message());
    } else {
      absl::StrAppend(&problem, "; ", status.message());
    }
  }
  if (rows.empty()) {
    return Fail(kUsage, !problem.empty() ? problem
                                         : absl::StrCat("no recording in ", options.timelines.front(),
                                                        ": give a folder with recordings (*.json), or their names"));
  }
  Fleet fleet = FleetOf(std::move(rows));
  if (skipped > 0)
    fleet.notes.push_back(
        absl::StrCat(skipped == 1 ? "1 file of the folder is" : absl::StrCat(skipped, " files of the folder are"),
                     " not a recording, and left out."));
  const bool printed =
      options.json ? std::fputs((Dump(FleetJson(fleet), 2) + "\n").c_str(), stdout) >= 0 && std::fflush(stdout) == 0
                   : PrintReport(FleetText(fleet), options.colour, stdout);
  if (!printed) return Fail(kCannotWrite, "write the report to stdout: failed");
  return problem.empty() ? kDone : Fail(kUsage, problem);
}

}  // namespace cowprof
