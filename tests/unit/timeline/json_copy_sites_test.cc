// Frames, places, their counts and copied pages in a record: what is written is read back, alone and within a record;
// numbers that are missing, huge or of another type do no harm; what a full disk dropped comes with the next record.
#include "timeline/json_copy_sites.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "json_schema.h"
#include "model/facts/run_model.h"
#include "random_recording.h"
#include "timeline/json_timeline.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

Json ParseJson(absl::string_view text) { return Json::parse(text.begin(), text.end(), nullptr, false); }

// The output of EncodeCopySites(), as a record of its own.
std::string Encoded(const Sample& sample, CopySiteNumbers* numbers) {
  std::string out = "{\"t\":1,\"type\":\"sample\"";
  EncodeCopySites(sample, numbers, &out);
  return out + "}";
}
Sample Decoded(const std::string& record, CopySiteNumbers* numbers) {
  const Json json = ParseJson(record);
  INFO(record.substr(0, 500));
  REQUIRE(json.is_object());
  Sample sample;
  DecodeCopySites({.json = json}, numbers, &sample);
  return sample;
}
Sample Decoded(const std::string& record) {
  CopySiteNumbers numbers;
  return Decoded(record, &numbers);
}

// The part of a sample that these tests are about.
Sample CopySitesOf(const Sample& sample) {
  return {.new_frames = sample.new_frames,
          .new_copy_sites = sample.new_copy_sites,
          .copy_sites = sample.copy_sites,
          .new_growth_sites = sample.new_growth_sites,
          .growth = sample.growth,
          .pages = sample.pages,
          .new_regions = sample.new_regions,
          .grown_regions = sample.grown_regions,
          .regions = sample.regions,
          .cause_evidence = sample.cause_evidence};
}

// Each page of a process with its cause, to compare runs that are split or ordered differently.
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

TEST_CASE("places: empty lists are not written") {
  CopySiteNumbers numbers;
  std::string out;
  EncodeCopySites({}, &numbers, &out);
  CHECK(out.empty());
  CHECK(numbers.frames == 0);
  CHECK(Decoded("{}") == Sample{});
}

TEST_CASE("places: what is written matches the schema") {
  CopySiteNumbers numbers = {.frames = 7, .copy_sites = 3};
  const Sample sample = {
      .new_frames = {{"coco.py", "CocoDataset.__getitem__", 41}, {"a b\"\n.py", "", 0}},
      .new_copy_sites = {{Cause::kRefcount, "str", "libpython3.11.so", "PyList_GetItem", {8, 7}}, {Cause::kData}},
      .copy_sites = {{2, 4, 1000, 10, 100'000}},
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
  CHECK(numbers.copy_sites == 5);
  CopySiteNumbers read = {.frames = 7, .copy_sites = 3};
  CHECK(Decoded(json.dump(), &read) == sample);
  CHECK(read.frames == 9);
  CHECK(read.copy_sites == 5);
}

TEST_CASE("places: the header names every column") {
  const Json names = NamesOfCopySiteColumns();
  CopySiteNumbers numbers;
  const Json json = ParseJson(Encoded({.processes = {{.index = 0, .verify = VerifyFigures{}}},
                                       .new_frames = {{}},
                                       .new_copy_sites = {{}},
                                       .copy_sites = {{}},
                                       .new_growth_sites = {{}},
                                       .growth = {{}},
                                       .pages = {{0, Cause::kData, 1, 1}},
                                       .new_regions = {{}},
                                       .grown_regions = {{}},
                                       .regions = {{}},
                                       .heads = {{}}},
                                      &numbers));
  REQUIRE(names.size() == 11);
  for (const auto& [key, columns] : names.items()) {
    INFO(key);
    REQUIRE(json[key].size() == 1);
    CHECK(json[key][0].size() == columns.size());
  }
}

TEST_CASE("places: any recording is read back and matches the schema") {
  const unsigned seed = GENERATE(range(1u, 31u));
  INFO("seed " << seed);
  static const JsonSchema schema("timeline");
  RandomRecording recording(seed);
  CopySiteNumbers written, read;
  std::string header = EncodeHeader(recording.Info());
  Json records = Json::array();
  size_t frames = 0, copy_sites = 0, pages = 0;
  for (int i = 0; i < 40; ++i) {
    const Sample sample = CopySitesOf(recording.Next());
    const std::string record = Encoded(sample, &written);
    records.push_back(ParseJson(record));
    // Runs come back grouped by cause, everything else unchanged.
    Sample expected = sample;
    std::stable_sort(expected.pages.begin(), expected.pages.end(), [](const PageRun& a, const PageRun& b) {
      return std::tie(a.index, a.cause) < std::tie(b.index, b.cause);
    });
    INFO(record);
    REQUIRE(Decoded(record, &read) == expected);
    frames += sample.new_frames.size();
    copy_sites += sample.copy_sites.size();
    pages += sample.pages.size();
  }
  CHECK((frames > 5 && copy_sites > 5 && pages > 5));
  const auto document = nlohmann::json::parse(header + records.dump().substr(1) + "}", nullptr, false);
  CHECK(schema.Errors(document) == std::vector<std::string>{});
}

TEST_CASE("places: names of the target's choosing stay valid JSON") {
  const std::string name = GENERATE(as<std::string>(), "\"],[", "\\", "\xff\xfe", "\n,\n]}", std::string("\0\x1f", 2),
                                    "\xed\xa0\x80", std::string(4096, '"'));
  CopySiteNumbers numbers;
  const std::string record =
      Encoded({.new_frames = {{name, name, 1}}, .new_copy_sites = {{Cause::kData, name, name, name, {0}}}}, &numbers);
  CHECK(record.find('\n') == std::string::npos);
  const Sample sample = Decoded(record);
  REQUIRE((sample.new_frames.size() == 1 && sample.new_copy_sites.size() == 1));
  CHECK(sample.new_copy_sites[0].frames == std::vector<int>{0});
  if (ParseJson(absl::StrCat("[", Json(name).dump(-1, ' ', false, Json::error_handler_t::ignore), "]"))[0] == name)
    CHECK(sample.new_frames[0].file == name);
}

TEST_CASE("places: a missing number is an empty frame or place") {
  CopySiteNumbers numbers;
  const Sample sample = Decoded(
      R"({"frames":[[2,"c","f",3]],"new_places":[[1,"data","t","m","s",[2,0,1]]],"places":[[0,0,5,5,5],[0,1,6,6,6]]})",
      &numbers);
  CHECK(sample.new_frames == std::vector<Frame>{{}, {}, {"c", "f", 3}});
  REQUIRE(sample.new_copy_sites.size() == 2);
  CHECK(sample.new_copy_sites[0] == CopySite{});
  CHECK(sample.new_copy_sites[1] == CopySite{Cause::kData, "t", "m", "s", {2, 0, 1}});
  CHECK(sample.copy_sites.size() == 2);
  CHECK((numbers.frames == 3 && numbers.copy_sites == 2));
  // One that is known already is not repeated, and shifts nothing.
  const Sample again = Decoded(R"({"frames":[[0,"late","",0],[3,"d","",0],[1,"late","",0]]})", &numbers);
  CHECK(again.new_frames == std::vector<Frame>{{"d", "", 0}});
  CHECK(numbers.frames == 4);
}

TEST_CASE("places: a huge number does not make a huge list") {
  CopySiteNumbers numbers;
  const std::string number = GENERATE("17", "1000000", "1000001", "4294967295", "4294967296", "18446744073709551615",
                                      "1e300", "-1", "-9223372036854775808", "0.5");
  INFO(number);
  const std::string numbered = absl::StrCat("[", number, ",\"data\",\"t\",\"m\",\"s\",[", number, "]]");
  const Sample sample = Decoded(absl::StrCat("{\"frames\":[", numbered, "],\"new_places\":[", numbered,
                                             "],\"places\":[[0,", number, ",1,1,1],[", number, ",0,1,1,1]]}"),
                                &numbers);
  CHECK(sample.new_frames.size() <= 1);
  CHECK(sample.new_copy_sites.size() <= 1);
  for (const CopySite& copy_site : sample.new_copy_sites) CHECK(copy_site.frames.size() <= 1);
  CHECK(sample.copy_sites.size() <= 2);
}

TEST_CASE("places: of long names and stacks the beginning is read") {
  std::string frames, name = std::string(4095, 'x') + "\u00e9\u00e9";
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&frames, i == 0 ? "" : ",", i % 2);
  const Sample sample = Decoded(absl::StrCat("{\"frames\":[[0,\"", name, "\",\"f\",1],[1,\"", name.substr(1),
                                             "\",\"\",1]]", ",\"new_places\":[[0,\"data\",\"t\",\"m\",\"", name, "\",[",
                                             frames, "]]],\"new_growth\":[[0,[", frames, "]]]}"));
  REQUIRE((sample.new_frames.size() == 2 && sample.new_copy_sites.size() == 1 && sample.new_growth_sites.size() == 1));
  CHECK(sample.new_frames[0].file == std::string(4095, 'x'));  // no part of a character
  CHECK(sample.new_frames[1].file == std::string(4094, 'x') + "\u00e9");
  CHECK(sample.new_copy_sites[0].symbol == sample.new_frames[0].file);
  const std::vector<int>& stack = sample.new_copy_sites[0].frames;
  REQUIRE(stack.size() == 256);
  CHECK((stack[0] == 0 && stack[255] == 1));
  CHECK(sample.new_growth_sites[0].frames == stack);
}

TEST_CASE("places: nonexistent frames are left out of a stack, and counts of nonexistent places are left out") {
  const Sample sample = Decoded(
      R"({"frames":[[0,"a","f",1]],"new_places":[[0,"hash","t","m","s",[0,1,-1,"0",null,[0],1e300,0.0,2147483648,0]]],)"
      R"("places":[[0,0,1,1,1],[0,1,1,1,1],[0,-1,1,1,1],[4294967296,0,1,1,1],[-1,0,1,1,1],["0",0,1,1,1],[],7]})");
  REQUIRE(sample.new_copy_sites.size() == 1);
  for (const int frame : sample.new_copy_sites[0].frames) CHECK(frame == 0);
  CHECK(sample.new_copy_sites[0].frames.size() >= 2);
  CHECK(sample.copy_sites == std::vector<CopySiteCount>{{0, 0, 1, 1, 1}});
}

TEST_CASE("places: a cause of a later version is unknown") {
  for (const char* cause : {"\"moon\"", "7", "null", "[]", "\"\""}) {
    const Sample sample =
        Decoded(absl::StrCat("{\"new_places\":[[0,", cause, ",\"t\"]],\"pages\":[[0,", cause, ",9,[1]]]}"));
    REQUIRE(sample.new_copy_sites.size() == 1);
    CHECK(sample.new_copy_sites[0].cause == Cause::kUnknown);
    CHECK(sample.new_copy_sites[0].type == "t");
    CHECK(sample.pages == std::vector<PageRun>{{0, Cause::kUnknown, 9, 1}});
  }
}

TEST_CASE("places: impossible page numbers end their row") {
  const char* row = GENERATE("[0,\"data\",-1,[1]]", "[0,\"data\",1e300,[1]]", "[-1,\"data\",1,[1]]",
                             "[4294967296,\"data\",1,[1]]", "[0,\"data\",1,[18446744073709551615,1]]",
                             "[0,\"data\",18446744073709551615,[1,1,1]]", "[0,\"data\",1,[\"1\",1,1]]",
                             "[0,\"data\",1,7]", "[0,\"data\",1]", "[0,\"data\",1,{}]", "[]", "7", "null", "{\"0\":1}");
  INFO(row);
  CHECK(Decoded(absl::StrCat("{\"pages\":[", row, "]}")).pages.empty());
  // Other rows remain valid, and so does what came before in the same row.
  const Sample sample = Decoded(absl::StrCat("{\"pages\":[", row, ",[3,\"free\",8,[2,1,1,18446744073709551615,1]]]}"));
  CHECK(sample.pages == std::vector<PageRun>{{3, Cause::kFree, 8, 2}, {3, Cause::kFree, 11, 1}});
}

TEST_CASE("places: lists of another type, and any value anywhere") {
  const std::string record =
      R"({"frames":[[0,"a","f",1]],"new_places":[[0,"hash","t","m","s",[0]]],"places":[[0,0,1,1,1]],)"
      R"("pages":[[0,"data",5,[1,2,3]]],"cause_evidence":{"looked":1,"told":2,"audited":3,"contradicted":4}})";
  const Json whole = ParseJson(record), flat = whole.flatten();
  std::set<std::string> at;
  for (const auto& [pointer, unused] : flat.items()) {
    for (std::string copy_site = pointer; !copy_site.empty(); copy_site = copy_site.substr(0, copy_site.rfind('/')))
      at.insert(copy_site);
  }
  REQUIRE(at.size() > 30);
  for (const std::string& copy_site : at) {
    for (const char* odd : {"null", "true", "\"7\"", "[]", "{}", "[[[1]]]", "-1", "1e300", "-1e300", "0.5",
                            "18446744073709551615", "-9223372036854775808", "{\"a\":1}"}) {
      Json mutated = whole;
      mutated[Json::json_pointer(copy_site)] = ParseJson(odd);
      INFO(copy_site << " is " << odd);
      CopySiteNumbers numbers;
      const Sample sample = Decoded(mutated.dump(), &numbers);
      REQUIRE(sample.new_frames.size() == static_cast<size_t>(numbers.frames));
      REQUIRE(sample.new_copy_sites.size() == static_cast<size_t>(numbers.copy_sites));
      REQUIRE(sample.new_frames.size() <= 2);
      for (const CopySite& one : sample.new_copy_sites) {
        for (const int frame : one.frames) REQUIRE((frame >= 0 && frame < numbers.frames));
      }
      for (const CopySiteCount& count : sample.copy_sites)
        REQUIRE((count.index >= 0 && count.copy_site < numbers.copy_sites));
      for (const PageRun& run : sample.pages) REQUIRE((run.index >= 0 && run.pages <= 1ull << 36));
    }
  }
}

TEST_CASE("places: a sample keeps nothing of an earlier record") {
  CopySiteNumbers numbers;
  Sample sample = Decoded(
      R"({"frames":[[0,"a","f",1]],"new_places":[[0,"hash"]],"places":[[0,0,1,1,1]],"pages":[[0,"data",5,[1]]],)"
      R"("cause_evidence":{"looked":1}})",
      &numbers);
  CHECK(sample.cause_evidence == CauseEvidence{.looked = 1});
  DecodeCopySites({.json = Json::object()}, &numbers, &sample);
  CHECK(sample == Sample{});
}

TEST_CASE("places: regions are written and read back, whatever their contents") {
  CopySiteNumbers written, read;
  const Sample sample = {.new_regions = {{0, {RegionKind::kFile, "libtorch \"x\".so", 0x7f0000000000, 0x7f0000004000}},
                                         {3, {RegionKind::kOther, "", 0, 4096}}},
                         .grown_regions = {{1, 8192}},
                         .regions = {{3, 1, 1, 2, 3, 4, 5}, {0, 0, 0, 0, 0, 0, 0}}};
  const std::string record = Encoded(sample, &written);
  CHECK(Decoded(record, &read) == sample);
  CHECK((written.regions == 2 && read.regions == 2));
  for (const char* row :
       {"[0,2,1]", "[0,-1,1]", "[-1,0,1]", "[4294967296,0,1]", "[]", "7", "[0,18446744073709551615]"}) {
    INFO(row);
    CopySiteNumbers numbers = {.regions = 2};
    CHECK(Decoded(absl::StrCat("{\"regions\":[", row, "]}"), &numbers).regions.empty());
  }
  for (const char* row : {"[2,1]", "[-1,1]", "[0,-1]", "[0]", "7"}) {
    INFO(row);
    CopySiteNumbers numbers = {.regions = 2};
    CHECK(Decoded(absl::StrCat("{\"grown_regions\":[", row, "]}"), &numbers).grown_regions.empty());
  }
  const Sample odd = Decoded(R"({"new_regions":[[1,-1,"moon",7,-5,1e300],[2,18446744073709551615]]})");
  REQUIRE(odd.new_regions.size() == 3);
  for (const NumberedRegion& region : odd.new_regions) CHECK((region.index >= 0 && region.region.name.empty()));
  RunModel model;
  Append(odd, &model);
  const Sample huge =
      Decoded(R"({"new_regions":[[0,1,"heap","",4096,18446744073709551615],[1,1,"heap","",18446744073709551615,9]]})");
  REQUIRE(huge.new_regions.size() == 2);
  CHECK(huge.new_regions[0].region.end == 4096 + (uint64_t{1} << 57));
  CHECK(huge.new_regions[1].region.end == UINT64_MAX);
}

TEST_CASE("places: results of --verify belong to a process of the sample") {
  RecordEncoder encoder;
  RecordDecoder decoder;
  ProcessSample row = {.index = 2, .verify = VerifyFigures{21, 1, 2, 3, 4, 11}};
  Feed(encoder.Encode({.processes = {row}}), &decoder);
  REQUIRE(decoder.sample().processes.size() == 1);
  CHECK(decoder.sample().processes[0].verify == row.verify);
  Feed(R"({"type":"sample","t":2,"verify":[[7,1,1,1,1,1,1],[],3,[-1]]})", &decoder);
  REQUIRE(decoder.sample().processes.size() == 1);
  CHECK_FALSE(decoder.sample().processes[0].verify.has_value());
  // Whatever the order of the rows.
  Feed(R"({"type":"sample","t":3,"processes":[[9],[4]],"verify":[[9,9,1,1,1,1,1],[2,2,1,1,1,1,1],[3,3,1,1,1,1,1]]})",
       &decoder);
  REQUIRE(decoder.sample().processes.size() == 3);
  CHECK(decoder.sample().processes[0].verify->pages == 2);
  CHECK_FALSE(decoder.sample().processes[1].verify.has_value());
  CHECK(decoder.sample().processes[2].verify->pages == 9);
}

// ---- Within a record ----

TEST_CASE("places: numbers and counts of uncommitted records come with the next") {
  RecordEncoder encoder;
  RecordDecoder decoder;
  RunModel model;
  const auto event = [](int index) { return Event{.index = index, .what = ProcessStarted{.id = {100 + index, 1}}}; };
  const auto tick = [&](Sample sample, bool commit) {
    const std::string records = encoder.Encode(sample);
    if (!commit) return;
    encoder.Commit();
    Feed(records, &decoder);
    Append(decoder.sample(), &model);
  };
  tick({.events = {event(0)},
        .new_frames = {{"a.py", "a", 1}},
        .new_copy_sites = {{Cause::kRefcount, "str", "", "", {0}}},
        .copy_sites = {{0, 0, 10, 10, 10}}},
       true);
  tick({.new_frames = {{"b.py", "b", 2}},
        .new_copy_sites = {{Cause::kData, "dict", "", "", {1, 0}}},
        .copy_sites = {{0, 0, 20, 20, 20}, {0, 1, 5, 5, 5}},
        .cause_evidence = CauseEvidence{1, 1, 1, 1}},
       false);
  tick({.new_frames = {{"c.py", "c", 3}},
        .new_copy_sites = {{Cause::kFree, "set", "", "", {2}}},
        .copy_sites = {{0, 0, 30, 30, 30}, {0, 2, 6, 6, 6}}},
       false);
  tick({}, true);
  CHECK(model.frames == std::vector<Frame>{{"a.py", "a", 1}, {"b.py", "b", 2}, {"c.py", "c", 3}});
  REQUIRE(model.copy_sites.size() == 3);
  CHECK(model.copy_sites[1].frames == std::vector<int>{1, 0});
  CHECK(model.copy_sites[2].type == "set");
  REQUIRE(model.processes.size() == 1);
  CHECK(model.processes[0].copy_sites ==
        absl::btree_map<int, CopySiteCount>{{0, {0, 0, 30, 30, 30}}, {1, {0, 1, 5, 5, 5}}, {2, {0, 2, 6, 6, 6}}});
  CHECK(model.cause_evidence == CauseEvidence{1, 1, 1, 1});
  // Once only: not again with the one after.
  tick({.new_frames = {{"d.py", "d", 4}}}, true);
  CHECK(decoder.sample().new_frames == std::vector<Frame>{{"d.py", "d", 4}});
  CHECK(decoder.sample().copy_sites.empty());
  CHECK_FALSE(decoder.sample().cause_evidence.has_value());
  CHECK(model.frames.size() == 4);
}

// Runs of several samples are not sorted, and a page may be copied again after a fork.
TEST_CASE("places: pages of uncommitted records come with the next") {
  const std::vector<PageRun> first =
      GENERATE(std::vector<PageRun>{{0, Cause::kData, 500, 3}, {0, Cause::kData, 700, 1}},  // after the following ones
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
