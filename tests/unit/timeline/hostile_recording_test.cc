// A recording written by an attacker, whose texts contain control sequences for the reader's terminal: none may get
// there unchanged.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fixture_tree.h"
#include "json_schema.h"
#include "judged.h"
#include "random_recording.h"
#include "sink/report/report.h"
#include "sink/terminal/screen.h"
#include "timeline/timeline_file.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kClearsTheScreen[] = "\x1b[2J";

// "records/shm/mount": the path of a text, without list indexes.
void CollectTexts(const Json& value, const std::string& at, std::set<std::string>* texts) {
  if (value.is_string()) texts->insert(at);
  for (const auto& [key, inner] : value.items()) {
    if (value.is_structured()) CollectTexts(inner, value.is_array() ? at : absl::StrCat(at, "/", key), texts);
  }
}

void ReplaceTexts(Json* value, const std::string& at, const std::string& wanted) {
  if (value->is_string() && at == wanted) *value = kClearsTheScreen;
  if (value->is_object()) {
    for (auto& [key, inner] : value->items()) ReplaceTexts(&inner, absl::StrCat(at, "/", key), wanted);
  } else if (value->is_array()) {
    for (Json& inner : *value) ReplaceTexts(&inner, at, wanted);
  }
}

// The layout of a recording on disk: one record per line.
std::string Lines(const Json& recording) {
  std::string text = absl::StrCat("{\"schema\":", recording["schema"].dump(),
                                  ",\"header\":", recording["header"].dump(), ",\"records\":[");
  const char* separator = "\n";
  for (const Json& record : recording["records"]) {
    absl::StrAppend(&text, separator, record.dump());
    separator = ",\n";
  }
  return absl::StrCat(text, "\n]}\n");
}

Run Read(const std::string& path) {
  Run run;
  const auto contents = ReadRun(path, &run);
  REQUIRE(contents.ok());
  return run;
}

TEST_CASE("no text of a recording reaches the terminal unescaped") {
  const FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  RandomRecording random(4);
  auto file = TimelineFile::Create(path, random.Info());
  REQUIRE(file.ok());
  for (int i = 0; i < 40; ++i) REQUIRE((*file)->Write(random.Next(), {}).ok());
  file->reset();
  const Json recording = Json::parse(ReadWhole(path));
  std::set<std::string> texts;
  CollectTexts(recording, "", &texts);
  CHECK(texts.size() > 30);
  for (const std::string& at : texts) {
    if (at == "/schema") continue;
    INFO(at);
    Json hostile = recording;
    ReplaceTexts(&hostile, "", at);
    std::ofstream(path) << Lines(hostile);
    const Run run = Read(path);
    CHECK_FALSE(absl::StrContains(ReportTextOf(run, true), '\x1b'));
    for (const ScreenLine& line :
         Screen(run.model, Judge(run, Detail::kScreen), {.size = {.columns = 200, .rows = 100}}))
      CHECK_FALSE(absl::StrContains(line.text, '\x1b'));
  }
}

}  // namespace
}  // namespace cowprof
