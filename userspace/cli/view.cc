// `cowprof view TIMELINE [OTHER] [-o FILE.html]`: makes the page of a recording, or of two to compare.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/commands.h"
#include "posix/output_file.h"
#include "sink/page/page.h"
#include "timeline/timeline_file.h"

namespace cowprof {
namespace {

absl::StatusOr<std::string> PackedRecording(const std::string& path) {
  Run run;
  PageBuilder builder;
  const absl::StatusOr<TimelineContents> contents =
      ReadTimeline(path, {[&](const RunInfo& info) { run.model.info = info; },
                          [&](const Sample& sample, const std::vector<Alert>& raised) {
                            Append(sample, raised, &run);
                            builder.Add(sample, raised, run);
                          }});
  if (!contents.ok()) return contents.status();
  return Packed(builder.Data(run.model, Judge(run), {.complete = contents->complete}).parts());
}

// "a.html"; for two recordings "a-vs-b.html", beside the first.
std::string DefaultOutput(const Options& options) {
  const absl::string_view stem = absl::StripSuffix(options.timeline, ".json");
  if (options.other_timeline.empty()) return absl::StrCat(stem, ".html");
  const std::string other = std::filesystem::path(options.other_timeline).filename();
  return absl::StrCat(stem, "-vs-", absl::StripSuffix(other, ".json"), ".html");
}

}  // namespace

absl::Status WritePage(const std::vector<std::string>& timelines, const std::string& path) {
  std::vector<std::string> packed;
  for (const std::string& timeline : timelines) {
    absl::StatusOr<std::string> recording = PackedRecording(timeline);
    if (!recording.ok()) return absl::InvalidArgumentError(recording.status().message());
    packed.push_back(*std::move(recording));
  }
  const absl::StatusOr<std::string> page = RenderPage(packed);
  if (!page.ok()) return absl::InternalError(page.status().message());
  const absl::Status status = ReplaceOutputFile(path, *page);
  return status.ok() ? status : absl::UnavailableError(status.message());
}

int View(const Options& options) {
  std::vector<std::string> timelines = {options.timeline};
  if (!options.other_timeline.empty()) timelines.push_back(options.other_timeline);
  const std::string path = options.output.empty() ? DefaultOutput(options) : options.output;
  if (absl::Status status = WritePage(timelines, path); !status.ok()) {
    return Fail(absl::IsInvalidArgument(status) ? kUsage
                : absl::IsInternal(status)      ? kInternalFailure
                                                : kCannotWrite,
                status.message());
  }
  std::printf("%s\n", path.c_str());
  return kDone;
}

}  // namespace cowprof
