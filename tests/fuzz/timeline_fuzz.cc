// A recording that anyone may have written, or that was truncated anywhere: read like `report` and `view` do, up to the
// bytes of the page.
#include <fcntl.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "fuzz.h"
#include "record_readers.h"
#include "sink/page/page.h"
#include "sink/report/report.h"
#include "sink/terminal/screen.h"
#include "timeline/timeline_file.h"
#include "timeline/timeline_tail.h"

namespace cowprof {
namespace {

void FuzzView(const std::string& path) {
  Run run;
  PageBuilder builder;
  const absl::StatusOr<TimelineContents> contents =
      ReadTimeline(path, {.on_info = [&](const RunInfo& info) { run.model.info = info; },
                          .on_sample =
                              [&](const Sample& sample, const std::vector<Alert>& raised) {
                                Append(sample, raised, &run);
                                builder.Add(sample, raised, run);
                              }});
  if (!contents.ok()) return;
  const Findings findings = Judge(run);
  const std::string data =
      absl::StrJoin(builder.Data(run.model, findings, {.complete = contents->complete}).parts(), "");
  const auto json = nlohmann::ordered_json::parse(data.substr(0, data.find('\n')), nullptr, false);
  Require(json.is_object(), "the page's data is JSON, a newline and the columns");
  const std::string text = ReportText(run.model, findings, contents->complete);
  for (const char c : text) Require(c == '\n' || static_cast<unsigned char>(c) >= ' ', "no control character");
  Screen(run.model, findings, {.size = {.columns = 100, .rows = 30}});
}

// Following a file that grows: reads complete lines only, the rest with the next call.
void FuzzTail(MemoryFile* file, absl::string_view bytes) {
  size_t samples = 0;
  file->Set(bytes.substr(0, bytes.size() / 2));
  TimelineTail tail(Fd(open(file->path().c_str(), O_RDONLY | O_CLOEXEC)),
                    {[](const RunInfo&) {}, [&](const Sample&, const std::vector<Alert>&) { ++samples; }});
  static_cast<void>(tail.Read());
  file->Set(bytes);
  static_cast<void>(tail.Read());
  const size_t before = samples;
  static_cast<void>(tail.Read());
  Require(samples == before, "a line is consumed once");
}

}  // namespace
}  // namespace cowprof

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Hardly any recording with random bytes changed is read beyond its first lines, so every second mutation keeps the
// format intact.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::mt19937 random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> lines = absl::StrSplit(absl::string_view(reinterpret_cast<char*>(data), size), '\n');
  for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
    std::string& line = lines[random() % lines.size()];
    line = cowprof::WithOddValue(line, &random);
  }
  if (random() % 8 == 0) std::swap(lines[random() % lines.size()], lines[random() % lines.size()]);
  if (random() % 8 == 0) lines.push_back(lines[random() % lines.size()]);
  const std::string text = absl::StrJoin(lines, "\n");
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static cowprof::MemoryFile file;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  cowprof::FuzzTail(&file, bytes);
  file.Set(bytes);
  cowprof::FuzzView(file.path());
  return 0;
}
