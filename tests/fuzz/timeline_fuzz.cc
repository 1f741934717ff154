// A recording that anybody may have written, or that was cut off anywhere: read as `report` and `view` read it, up to
// the bytes of the page.
#include <fcntl.h>

#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "sink/page.h"
#include "sink/report.h"
#include "sink/screen.h"
#include "sink/timeline_file.h"
#include "sink/timeline_tail.h"

namespace cowprof {
namespace {

void FuzzView(const std::string& path) {
  Growth growth;
  PageBuilder builder;
  const absl::StatusOr<TimelineContents> contents = ReadTimeline(
      path, [&](const RunInfo& info) { growth.info = info; },
      [&](const Sample& sample) {
        Append(sample, &growth);
        builder.Add(sample, growth);
      });
  if (!contents.ok()) return;
  const std::string data = builder.Data(growth, {.complete = contents->complete});
  const auto json = nlohmann::ordered_json::parse(data.substr(0, data.find('\n')), nullptr, false);
  Require(json.is_object(), "the page's data is JSON, a newline and the columns");
  const std::string text = ReportText(growth, contents->complete);
  for (const char c : text) Require(c == '\n' || static_cast<unsigned char>(c) >= ' ', "no control character");
  Screen(growth, {.columns = 100, .rows = 30}, "");
}

// What follows a file that grows: whole lines only, the rest with the next look.
void FuzzTail(MemoryFile* file, absl::string_view bytes) {
  size_t samples = 0;
  file->Set(bytes.substr(0, bytes.size() / 2));
  TimelineTail tail(Fd(open(file->path().c_str(), O_RDONLY | O_CLOEXEC)),
                    {[](const RunInfo&) {}, [&](const Sample&) { ++samples; }});
  static_cast<void>(tail.Read());
  file->Set(bytes);
  static_cast<void>(tail.Read());
  const size_t before = samples;
  static_cast<void>(tail.Read());
  Require(samples == before, "a line is taken once");
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static cowprof::MemoryFile file;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  cowprof::FuzzTail(&file, bytes);
  file.Set(bytes);
  cowprof::FuzzView(file.path());
  return 0;
}
