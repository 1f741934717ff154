// `cowprof view TIMELINE... [-o FILE.html]`: makes the page of a recording, of two to compare, or of the ranks or nodes
// of a job.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/commands.h"
#include "cli/fleet_files.h"
#include "posix/output_file.h"
#include "sink/compare/diff.h"
#include "sink/page/fleet_page.h"
#include "sink/page/page.h"

namespace cowprof {
namespace {

struct OnePage {
  std::string packed;
  std::vector<FleetRow> rows;
};

// `figures`: where this recording's figures go; null: they are known. `diff`: what is compared, once both sides are in
// it; null: this is not the second of two.
absl::StatusOr<OnePage> PageOf(const std::string& path, std::vector<RunFigures>* figures, Diff* diff) {
  WholeRecording recording;
  PageBuilder builder(/*beside=*/true);
  absl::Status status = ReadRecording(
      path,
      [&](const Sample& sample, const std::vector<Alert>& raised, const Run& run) { builder.Add(sample, raised, run); },
      &recording);
  if (!status.ok()) return status;
  builder.End();
  const RunModel& model = recording.run.model;
  Findings findings = Judge(recording.run);
  absl::StatusOr<std::vector<FleetRow>> rows = RowsOf(recording, findings);
  if (!rows.ok()) return rows.status();
  if (figures != nullptr) {
    figures->push_back(FiguresOf(path, recording.run, findings, recording.complete));
    figures->back().to_end |= recording.stopped_by_target;
  }
  nlohmann::ordered_json comparisons;
  if (diff != nullptr) {
    diff->comparison = Compare(diff->a, diff->b);
    comparisons = ComparisonsJson(*diff);
  }
  if (!recording.complete) TellThatItHasNoEnd(model, &findings);
  const Fleet ranks = TellsRanksApart(recording) ? FleetOf(*rows) : Fleet();
  const RecordingState state = {.complete = recording.complete,
                                .ranks = ranks.rows.empty() ? nullptr : &ranks,
                                .comparisons = diff == nullptr ? nullptr : &comparisons};
  return OnePage{Packed(builder.LastData(model, findings, state).parts()), *std::move(rows)};
}

// Of one recording or of two. `diff`: of the two, if their figures are known.
absl::StatusOr<std::vector<OnePage>> PagesOf(const std::vector<std::string>& timelines, Diff diff = {}) {
  std::vector<OnePage> pages;
  const bool known = timelines.size() < 2 || !diff.a.empty();
  for (const std::string& timeline : timelines) {
    const bool second = !pages.empty();
    std::vector<RunFigures>* side = second ? &diff.b : &diff.a;
    absl::StatusOr<OnePage> page = PageOf(timeline, known ? nullptr : side, second ? &diff : nullptr);
    if (!page.ok()) return absl::InvalidArgumentError(page.status().message());
    pages.push_back(*std::move(page));
  }
  return pages;
}

std::string StemOf(const std::string& path) { return std::string(absl::StripSuffix(path, ".json")); }

// "a.html"; for two recordings to compare "a-vs-b.html", for a job "a-and-7-more.html", beside the first; for a folder
// "FOLDER.html" beside it.
std::string DefaultOutput(const std::vector<std::string>& timelines, bool job) {
  const std::string& first = timelines.front();
  const std::string more = timelines.size() == 1 ? "" : absl::StrCat("-and-", timelines.size() - 1, "-more");
  if (IsFolder(first)) {
    std::error_code unknown;
    std::filesystem::path folder = std::filesystem::absolute(first, unknown).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();
    return absl::StrCat(folder.string(), more, ".html");
  }
  if (job || timelines.size() == 1) return absl::StrCat(StemOf(first), more, ".html");
  const std::string other = std::filesystem::path(timelines[1]).filename();
  return absl::StrCat(StemOf(first), "-vs-", StemOf(other), ".html");
}

absl::StatusOr<std::string> Render(std::vector<OnePage> pages) {
  std::vector<std::string> packed;
  for (OnePage& page : pages) packed.push_back(std::move(page.packed));
  return RenderPage(packed);
}

// Writes the page and prints its path; "-": prints the page. `problem`: of files that could not be read.
int Write(const absl::StatusOr<std::string>& page, const std::string& path, const std::string& problem = "") {
  if (!page.ok()) return Fail(kInternalFailure, page.status().message());
  const bool print = path == "-";
  if (const absl::Status status = print ? absl::OkStatus() : ReplaceOutputFile(path, *page); !status.ok())
    return Fail(kCannotWrite, status.message());
  const int code = PrintToStdout(print ? *page : absl::StrCat(path, "\n"));
  return code != kDone || problem.empty() ? code : Fail(kUsage, problem);
}

int WriteFleet(const Fleet& fleet, const std::string& path, const std::string& problem) {
  return Write(RenderPage({Packed(FleetPageData(fleet).parts())}), path, problem);
}

}  // namespace

absl::Status WritePage(const std::vector<std::string>& timelines, const std::string& path, const Diff* diff) {
  absl::StatusOr<std::vector<OnePage>> pages = PagesOf(timelines, diff == nullptr ? Diff() : *diff);
  if (!pages.ok()) return pages.status();
  const absl::StatusOr<std::string> page = Render(*std::move(pages));
  return page.ok() ? ReplaceOutputFile(path, *page) : page.status();
}

int View(const Options& options) {
  const std::vector<std::string>& timelines = options.timelines;
  const auto output = [&](bool job) { return options.output.empty() ? DefaultOutput(timelines, job) : options.output; };
  if (const absl::Status status = CheckIsNotRead(options.output, timelines); !status.ok())
    return Fail(kUsage, status.message());
  const bool folder = std::any_of(timelines.begin(), timelines.end(), IsFolder);
  if (options.view_as == ViewAs::kCompare && folder)
    return Fail(kUsage, "--as compare takes two recordings, not a folder");
  if (options.view_as == ViewAs::kJob || folder || timelines.size() > 2) {
    const absl::StatusOr<FleetFiles> files = ReadFleet(timelines);
    if (!files.ok()) return Fail(kUsage, files.status().message());
    return WriteFleet(files->fleet, output(true), files->problem);
  }
  absl::StatusOr<std::vector<OnePage>> pages = PagesOf(timelines);
  if (!pages.ok()) return Fail(kUsage, pages.status().message());
  if (timelines.size() == 2 && options.view_as == ViewAs::kByContent) {
    const bool job = AreOneJob((*pages)[0].rows, (*pages)[1].rows);
    std::fprintf(
        stderr, "cowprof: %s\n",
        job ? "these ran together as one job: a page with a row for each rank; to compare them, give --as compare"
            : "two runs to compare; if they are ranks or nodes of one job, give --as job");
    if (job) {
      std::vector<FleetRow> rows;
      for (OnePage& page : *pages) std::move(page.rows.begin(), page.rows.end(), std::back_inserter(rows));
      return WriteFleet(FleetOf(std::move(rows)), output(true), "");
    }
  }
  return Write(Render(*std::move(pages)), output(false));
}

}  // namespace cowprof
