// Frames, places, their counts and copied pages in a record: what is written is read back, alone and with the record
// around it; numbers that are missing, huge or of another type do no harm; and what a full disk kept from the file
// comes with the next record.
#include "sink/json_places.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "json_schema.h"
#include "model/growth.h"
#include "random_recording.h"
#include "sink/json_timeline.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

Json ParseJson(absl::string_view text) { return Json::parse(text.begin(), text.end(), nullptr, false); }

// What EncodePlaces() appends, in a record of its own.
std::string Encoded(const Sample& sample, PlaceNumbers* numbers) {
  std::string out = "{\"t\":1,\"type\":\"sample\"";
  EncodePlaces(sample, numbers, &out);
  return out + "}";
}
Sample Decoded(const std::string& record, PlaceNumbers* numbers) {
  const Json json = ParseJson(record);
  INFO(record.substr(0, 500));
  REQUIRE(json.is_object());
  Sample sample;
  DecodePlaces(json, numbers, &sample);
  return sample;
}
Sample Decoded(const std::string& record) {
  PlaceNumbers numbers;
  return Decoded(record, &numbers);
}

// The part of a sample that this is about.
Sample PlacesOf(const Sample& sample) {
  return {.new_frames = sample.new_frames,
          .new_places = sample.new_places,
          .places = sample.places,
          .pages = sample.pages,
          .new_regions = sample.new_regions,
          .regions = sample.regions,
          .cause_evidence = sample.cause_evidence};
}

// Each page of a process and its cause, for comparing runs that are cut or ordered otherwise.
std::set<std::tuple<int, Cause, uint64_t>> PagesOf(const std::vector<PageRun>& runs) {
  std::set<std::tuple<int, Cause, uint64_t>> pages;
  for (const PageRun& run : runs) {
    for (uint64_t i = 0; i < run.pages; ++i) pages.insert({run.index, run.cause, run.first_page + i});
  }
  return pages;
}

// Feeds the lines of one Encode().
void Feed(const std::string& records, RecordDecoder* decoder) {
  for (absl::string_view line : absl::StrSplit(records, ",\n")) REQUIRE(decoder->Decode(line).ok());
}

}  // namespace

TEST_CASE("places: nothing is written where there is nothing") {
  PlaceNumbers numbers;
  std::string out;
  EncodePlaces({}, &numbers, &out);
  CHECK(out.empty());
  CHECK(numbers.frames == 0);
  CHECK(Decoded("{}") == Sample{});
}

TEST_CASE("places: what is written, as the schema has it") {
  PlaceNumbers numbers = {.frames = 7, .places = 3};
  const Sample sample = {
      .new_frames = {{"coco.py", "CocoDataset.__getitem__", 41}, {"a b\"\n.py", "", 0}},
      .new_places = {{Cause::kRefcount, "str", "libpython3.11.so", "PyList_GetItem", {8, 7}}, {Cause::kData}},
      .places = {{2, 4, 1000, 10, 100'000}},
      .pages = {{0, Cause::kData, 16, 2}, {0, Cause::kData, 18, 1}, {0, Cause::kData, 20, 5}, {2, Cause::kFree, 7, 1}},
      .cause_evidence = CauseEvidence{1, 2, 3, 4}};
  const Json json = ParseJson(Encoded(sample, &numbers));
  CHECK(json["frames"].dump() == R"([[7,"coco.py","CocoDataset.__getitem__",41],[8,"a b\"\n.py","",0]])");
  CHECK(json["new_places"].dump() ==
        R"([[3,"refcount","str","libpython3.11.so","PyList_GetItem",[8,7]],[4,"data","","","",[]]])");
  CHECK(json["places"].dump() == "[[2,4,1000,10,100000]]");
  CHECK(json["pages"].dump() == R"([[0,"data",16,[2,0,1,1,5]],[2,"free",7,[1]]])");
  CHECK(json["cause_evidence"].dump() == R"({"looked":1,"told":2,"audited":3,"contradicted":4})");
  CHECK(numbers.frames == 9);
  CHECK(numbers.places == 5);
  PlaceNumbers read = {.frames = 7, .places = 3};
  CHECK(Decoded(json.dump(), &read) == sample);
  CHECK(read.frames == 9);
  CHECK(read.places == 5);
}

TEST_CASE("places: every column that is written has its name in the header") {
  const Json names = NamesOfPlaceColumns();
  PlaceNumbers numbers;
  const Json json = ParseJson(Encoded({.processes = {{.index = 0, .verify = VerifyFigures{}}},
                                       .new_frames = {{}},
                                       .new_places = {{}},
                                       .places = {{}},
                                       .pages = {{0, Cause::kData, 1, 1}},
                                       .new_regions = {{}},
                                       .regions = {{}},
                                       .heads = {{}}},
                                      &numbers));
  REQUIRE(names.size() == 8);
  for (const auto& [key, columns] : names.items()) {
    INFO(key);
    REQUIRE(json[key].size() == 1);
    CHECK(json[key][0].size() == columns.size());
  }
}

TEST_CASE("places: any recording is read back, and keeps to the schema") {
  const unsigned seed = GENERATE(range(1u, 31u));
  INFO("seed " << seed);
  static const JsonSchema schema("timeline");
  RandomRecording recording(seed);
  PlaceNumbers written, read;
  std::string header = EncodeHeader(recording.Info());
  Json records = Json::array();
  size_t frames = 0, places = 0, pages = 0;
  for (int i = 0; i < 40; ++i) {
    const Sample sample = PlacesOf(recording.Next());
    const std::string record = Encoded(sample, &written);
    records.push_back(ParseJson(record));
    // Runs come back grouped by cause; everything else as it was.
    Sample expected = sample;
    std::stable_sort(expected.pages.begin(), expected.pages.end(), [](const PageRun& a, const PageRun& b) {
      return std::tie(a.index, a.cause) < std::tie(b.index, b.cause);
    });
    INFO(record);
    REQUIRE(Decoded(record, &read) == expected);
    frames += sample.new_frames.size();
    places += sample.places.size();
    pages += sample.pages.size();
  }
  CHECK((frames > 5 && places > 5 && pages > 5));
  const auto document = nlohmann::json::parse(header + records.dump().substr(1) + "}", nullptr, false);
  CHECK(schema.Errors(document) == std::vector<std::string>{});
}

TEST_CASE("places: names of the target's choosing stay valid JSON") {
  const std::string name = GENERATE(as<std::string>(), "\"],[", "\\", "\xff\xfe", "\n,\n]}", std::string("\0\x1f", 2),
                                    "\xed\xa0\x80", std::string(1 << 16, '"'));
  PlaceNumbers numbers;
  const std::string record =
      Encoded({.new_frames = {{name, name, 1}}, .new_places = {{Cause::kData, name, name, name, {0}}}}, &numbers);
  CHECK(record.find('\n') == std::string::npos);
  const Sample sample = Decoded(record);
  REQUIRE((sample.new_frames.size() == 1 && sample.new_places.size() == 1));
  CHECK(sample.new_places[0].frames == std::vector<int>{0});
  if (ParseJson(absl::StrCat("[", Json(name).dump(-1, ' ', false, Json::error_handler_t::ignore), "]"))[0] == name)
    CHECK(sample.new_frames[0].file == name);
}

TEST_CASE("places: a number that was left out is an empty frame or place") {
  PlaceNumbers numbers;
  const Sample sample = Decoded(
      R"({"frames":[[2,"c","f",3]],"new_places":[[1,"data","t","m","s",[2,0,1]]],"places":[[0,0,5,5,5],[0,1,6,6,6]]})",
      &numbers);
  CHECK(sample.new_frames == std::vector<Frame>{{}, {}, {"c", "f", 3}});
  REQUIRE(sample.new_places.size() == 2);
  CHECK(sample.new_places[0] == Place{});
  CHECK(sample.new_places[1] == Place{Cause::kData, "t", "m", "s", {2, 0, 1}});
  CHECK(sample.places.size() == 2);
  CHECK((numbers.frames == 3 && numbers.places == 2));
  // One that was there already is not told twice, and shifts nothing.
  const Sample again = Decoded(R"({"frames":[[0,"late","",0],[3,"d","",0],[1,"late","",0]]})", &numbers);
  CHECK(again.new_frames == std::vector<Frame>{{"d", "", 0}});
  CHECK(numbers.frames == 4);
}

TEST_CASE("places: a huge number makes no huge list") {
  PlaceNumbers numbers;
  const std::string number = GENERATE("17", "1000000", "1000001", "4294967295", "4294967296", "18446744073709551615",
                                      "1e300", "-1", "-9223372036854775808", "0.5");
  INFO(number);
  const std::string numbered = absl::StrCat("[", number, ",\"data\",\"t\",\"m\",\"s\",[", number, "]]");
  const Sample sample = Decoded(absl::StrCat("{\"frames\":[", numbered, "],\"new_places\":[", numbered,
                                             "],\"places\":[[0,", number, ",1,1,1],[", number, ",0,1,1,1]]}"),
                                &numbers);
  CHECK(sample.new_frames.size() <= 1);
  CHECK(sample.new_places.size() <= 1);
  for (const Place& place : sample.new_places) CHECK(place.frames.size() <= 1);
  CHECK(sample.places.size() <= 2);
}

TEST_CASE("places: frames that do not exist are left out of a stack, counts of places that do not exist are left out") {
  const Sample sample = Decoded(
      R"({"frames":[[0,"a","f",1]],"new_places":[[0,"hash","t","m","s",[0,1,-1,"0",null,[0],1e300,0.0,2147483648,0]]],)"
      R"("places":[[0,0,1,1,1],[0,1,1,1,1],[0,-1,1,1,1],[4294967296,0,1,1,1],[-1,0,1,1,1],["0",0,1,1,1],[],7]})");
  REQUIRE(sample.new_places.size() == 1);
  for (const int frame : sample.new_places[0].frames) CHECK(frame == 0);
  CHECK(sample.new_places[0].frames.size() >= 2);
  CHECK(sample.places == std::vector<PlaceCount>{{0, 0, 1, 1, 1}});
}

TEST_CASE("places: a cause that this version does not know is unknown") {
  for (const char* cause : {"\"moon\"", "7", "null", "[]", "\"\""}) {
    const Sample sample =
        Decoded(absl::StrCat("{\"new_places\":[[0,", cause, ",\"t\"]],\"pages\":[[0,", cause, ",9,[1]]]}"));
    REQUIRE(sample.new_places.size() == 1);
    CHECK(sample.new_places[0].cause == Cause::kUnknown);
    CHECK(sample.new_places[0].type == "t");
    CHECK(sample.pages == std::vector<PageRun>{{0, Cause::kUnknown, 9, 1}});
  }
}

TEST_CASE("places: pages that no process can have end their row") {
  const char* row = GENERATE("[0,\"data\",-1,[1]]", "[0,\"data\",1e300,[1]]", "[-1,\"data\",1,[1]]",
                             "[4294967296,\"data\",1,[1]]", "[0,\"data\",1,[18446744073709551615,1]]",
                             "[0,\"data\",18446744073709551615,[1,1,1]]", "[0,\"data\",1,[\"1\",1,1]]",
                             "[0,\"data\",1,7]", "[0,\"data\",1]", "[0,\"data\",1,{}]", "[]", "7", "null", "{\"0\":1}");
  INFO(row);
  CHECK(Decoded(absl::StrCat("{\"pages\":[", row, "]}")).pages.empty());
  // The rows beside it stand, and so does what came before in the same row.
  const Sample sample = Decoded(absl::StrCat("{\"pages\":[", row, ",[3,\"free\",8,[2,1,1,18446744073709551615,1]]]}"));
  CHECK(sample.pages == std::vector<PageRun>{{3, Cause::kFree, 8, 2}, {3, Cause::kFree, 11, 1}});
}

TEST_CASE("places: lists of another type, and anything in place of anything") {
  const std::string record =
      R"({"frames":[[0,"a","f",1]],"new_places":[[0,"hash","t","m","s",[0]]],"places":[[0,0,1,1,1]],)"
      R"("pages":[[0,"data",5,[1,2,3]]],"cause_evidence":{"looked":1,"told":2,"audited":3,"contradicted":4}})";
  const Json whole = ParseJson(record), flat = whole.flatten();
  std::set<std::string> at;
  for (const auto& [pointer, unused] : flat.items()) {
    for (std::string place = pointer; !place.empty(); place = place.substr(0, place.rfind('/'))) at.insert(place);
  }
  REQUIRE(at.size() > 30);
  for (const std::string& place : at) {
    for (const char* odd : {"null", "true", "\"7\"", "[]", "{}", "[[[1]]]", "-1", "1e300", "-1e300", "0.5",
                            "18446744073709551615", "-9223372036854775808", "{\"a\":1}"}) {
      Json mutated = whole;
      mutated[Json::json_pointer(place)] = ParseJson(odd);
      INFO(place << " is " << odd);
      PlaceNumbers numbers;
      const Sample sample = Decoded(mutated.dump(), &numbers);
      REQUIRE(sample.new_frames.size() == static_cast<size_t>(numbers.frames));
      REQUIRE(sample.new_places.size() == static_cast<size_t>(numbers.places));
      REQUIRE(sample.new_frames.size() <= 2);
      for (const Place& one : sample.new_places) {
        for (const int frame : one.frames) REQUIRE((frame >= 0 && frame < numbers.frames));
      }
      for (const PlaceCount& count : sample.places) REQUIRE((count.index >= 0 && count.place < numbers.places));
      for (const PageRun& run : sample.pages) REQUIRE((run.index >= 0 && run.pages <= 1ull << 36));
    }
  }
}

TEST_CASE("places: nothing of an earlier record stays in a sample") {
  PlaceNumbers numbers;
  Sample sample = Decoded(
      R"({"frames":[[0,"a","f",1]],"new_places":[[0,"hash"]],"places":[[0,0,1,1,1]],"pages":[[0,"data",5,[1]]],)"
      R"("cause_evidence":{"looked":1}})",
      &numbers);
  CHECK(sample.cause_evidence == CauseEvidence{.looked = 1});
  DecodePlaces(Json::object(), &numbers, &sample);
  CHECK(sample == Sample{});
}

TEST_CASE("places: regions are written and read back, whatever stands in them") {
  PlaceNumbers written, read;
  const Sample sample = {.new_regions = {{0, {RegionKind::kFile, "libtorch \"x\".so", 0x7f0000000000, 0x7f0000004000}},
                                         {3, {RegionKind::kOther, "", 0, 4096}}},
                         .regions = {{3, 1, 1, 2, 3, 4, 5}, {0, 0, 0, 0, 0, 0, 0}}};
  const std::string record = Encoded(sample, &written);
  CHECK(Decoded(record, &read) == sample);
  CHECK((written.regions == 2 && read.regions == 2));
  for (const char* row :
       {"[0,2,1]", "[0,-1,1]", "[-1,0,1]", "[4294967296,0,1]", "[]", "7", "[0,18446744073709551615]"}) {
    INFO(row);
    PlaceNumbers numbers = {.regions = 2};
    CHECK(Decoded(absl::StrCat("{\"regions\":[", row, "]}"), &numbers).regions.empty());
  }
  const Sample odd = Decoded(R"({"new_regions":[[1,-1,"moon",7,-5,1e300],[2,18446744073709551615]]})");
  REQUIRE(odd.new_regions.size() == 3);
  for (const NumberedRegion& region : odd.new_regions) CHECK((region.index >= 0 && region.region.name.empty()));
  Growth growth;
  Append(odd, &growth);
}

TEST_CASE("places: what verify found belongs to a process of the sample") {
  RecordEncoder encoder;
  RecordDecoder decoder;
  ProcessSample row = {.index = 2, .verify = VerifyFigures{21, 1, 2, 3, 4, 11}};
  Feed(encoder.Encode({.processes = {row}}), &decoder);
  REQUIRE(decoder.sample().processes.size() == 1);
  CHECK(decoder.sample().processes[0].verify == row.verify);
  Feed(R"({"type":"sample","t":2,"verify":[[7,1,1,1,1,1,1],[],3,[-1]]})", &decoder);
  REQUIRE(decoder.sample().processes.size() == 1);
  CHECK_FALSE(decoder.sample().processes[0].verify.has_value());
}

// ---- With the record around it ----

TEST_CASE("places: of records that were not committed, numbers and counts come with the next") {
  RecordEncoder encoder;
  RecordDecoder decoder;
  Growth growth;
  const auto event = [](int index) {
    Event process = {.kind = EventKind::kProcess, .index = index};
    process.id = {100 + index, 1};
    return process;
  };
  const auto tick = [&](Sample sample, bool commit) {
    const std::string records = encoder.Encode(sample);
    if (!commit) return;
    encoder.Commit();
    Feed(records, &decoder);
    Append(decoder.sample(), &growth);
  };
  tick({.events = {event(0)},
        .new_frames = {{"a.py", "a", 1}},
        .new_places = {{Cause::kRefcount, "str", "", "", {0}}},
        .places = {{0, 0, 10, 10, 10}}},
       true);
  tick({.new_frames = {{"b.py", "b", 2}},
        .new_places = {{Cause::kData, "dict", "", "", {1, 0}}},
        .places = {{0, 0, 20, 20, 20}, {0, 1, 5, 5, 5}},
        .cause_evidence = CauseEvidence{1, 1, 1, 1}},
       false);
  tick({.new_frames = {{"c.py", "c", 3}},
        .new_places = {{Cause::kFree, "set", "", "", {2}}},
        .places = {{0, 0, 30, 30, 30}, {0, 2, 6, 6, 6}}},
       false);
  tick({}, true);
  CHECK(growth.frames == std::vector<Frame>{{"a.py", "a", 1}, {"b.py", "b", 2}, {"c.py", "c", 3}});
  REQUIRE(growth.places.size() == 3);
  CHECK(growth.places[1].frames == std::vector<int>{1, 0});
  CHECK(growth.places[2].type == "set");
  REQUIRE(growth.processes.size() == 1);
  CHECK(growth.processes[0].places ==
        std::map<int, PlaceCount>{{0, {0, 0, 30, 30, 30}}, {1, {0, 1, 5, 5, 5}}, {2, {0, 2, 6, 6, 6}}});
  CHECK(growth.cause_evidence == CauseEvidence{1, 1, 1, 1});
  // Told once: not again with the one after.
  tick({.new_frames = {{"d.py", "d", 4}}}, true);
  CHECK(decoder.sample().new_frames == std::vector<Frame>{{"d.py", "d", 4}});
  CHECK(decoder.sample().places.empty());
  CHECK_FALSE(decoder.sample().cause_evidence.has_value());
  CHECK(growth.frames.size() == 4);
}

// Runs of several samples together are not sorted, and a page may be copied again after a fork.
TEST_CASE("places: of records that were not committed, pages come with the next") {
  const std::vector<PageRun> first =
      GENERATE(std::vector<PageRun>{{0, Cause::kData, 500, 3}, {0, Cause::kData, 700, 1}},  // behind those that follow
               std::vector<PageRun>{{0, Cause::kData, 100, 5}},                             // the same again
               std::vector<PageRun>{{0, Cause::kData, 98, 4}},                              // overlapping
               std::vector<PageRun>{{0, Cause::kData, 90, 100}});                           // around them
  const std::vector<PageRun> second = {{0, Cause::kData, 100, 5}, {0, Cause::kData, 110, 2}};
  RecordEncoder encoder;
  encoder.Encode({.pages = first});
  const std::string records = encoder.Encode({.t = absl::Seconds(1), .pages = second});
  encoder.Commit();
  RecordDecoder decoder;
  Feed(records, &decoder);
  std::vector<PageRun> all = first;
  all.insert(all.end(), second.begin(), second.end());
  INFO(records);
  CHECK(PagesOf(decoder.sample().pages) == PagesOf(all));
}

}  // namespace cowprof
