// `cowprof view TIMELINE [-o FILE.html]`: makes the page of a recording.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "commands.h"
#include "sink/output_file.h"
#include "sink/page.h"
#include "sink/timeline_file.h"

namespace cowprof {

int View(const Options& options) {
  Growth growth;
  PageBuilder builder;
  const absl::StatusOr<TimelineContents> contents = ReadTimeline(
      options.timeline, [&](const RunInfo& info) { growth.info = info; },
      [&](const Sample& sample) {
        Append(sample, &growth);
        builder.Add(sample, growth);
      });
  if (!contents.ok()) return Fail(kUsage, contents.status().message());
  const absl::StatusOr<std::string> page = RenderPage({Packed(builder.Data(growth, {.complete = contents->complete}))});
  if (!page.ok()) return Fail(kInternalFailure, page.status().message());
  const std::string path =
      options.output.empty() ? absl::StrCat(absl::StripSuffix(options.timeline, ".json"), ".html") : options.output;
  if (absl::Status status = ReplaceOutputFile(path, *page); !status.ok()) return Fail(kCannotWrite, status.message());
  std::printf("%s\n", path.c_str());
  return kDone;
}

}  // namespace cowprof
