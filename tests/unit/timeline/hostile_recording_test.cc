// A recording that somebody else has written, whose texts are meant for the reader's terminal: none gets there as it
// is.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fixture_tree.h"
#include "json_schema.h"
#include "model/growth.h"
#include "random_recording.h"
#include "sink/report.h"
#include "sink/screen.h"
#include "sink/timeline_file.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kClearsTheScreen[] = "\x1b[2J";

// "records/shm/mount": where a text stands, whatever the numbers of its lists.
void CollectTexts(const Json& value, const std::string& place, std::set<std::string>* places) {
  if (value.is_string()) places->insert(place);
  for (const auto& [key, inner] : value.items()) {
    if (value.is_structured()) CollectTexts(inner, value.is_array() ? place : absl::StrCat(place, "/", key), places);
  }
}

void ReplaceTexts(Json* value, const std::string& place, const std::string& wanted) {
  if (value->is_string() && place == wanted) *value = kClearsTheScreen;
  if (value->is_object()) {
    for (auto& [key, inner] : value->items()) ReplaceTexts(&inner, absl::StrCat(place, "/", key), wanted);
  } else if (value->is_array()) {
    for (Json& inner : *value) ReplaceTexts(&inner, place, wanted);
  }
}

// As a recording lies on the disk: a record on a line.
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

Growth Read(const std::string& path) {
  Growth growth;
  const auto contents = ReadTimeline(
      path, [&](const RunInfo& info) { growth.info = info; }, [&](const Sample& sample) { Append(sample, &growth); });
  REQUIRE(contents.ok());
  return growth;
}

TEST_CASE("no text of a recording reaches the terminal as it is") {
  const FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  RandomRecording random(4);
  auto file = TimelineFile::Create(path, random.Info());
  REQUIRE(file.ok());
  for (int i = 0; i < 40; ++i) REQUIRE((*file)->Write(random.Next(), {}).ok());
  file->reset();
  const Json recording = Json::parse(ReadWhole(path));
  std::set<std::string> places;
  CollectTexts(recording, "", &places);
  CHECK(places.size() > 30);
  for (const std::string& place : places) {
    if (place == "/schema") continue;
    INFO(place);
    Json hostile = recording;
    ReplaceTexts(&hostile, "", place);
    std::ofstream(path) << Lines(hostile);
    const Growth growth = Read(path);
    CHECK_FALSE(absl::StrContains(ReportText(growth, true), '\x1b'));
    for (const ScreenLine& line : Screen(growth, {.columns = 200, .rows = 100}, ""))
      CHECK_FALSE(absl::StrContains(line.text, '\x1b'));
  }
}

}  // namespace
}  // namespace cowprof
