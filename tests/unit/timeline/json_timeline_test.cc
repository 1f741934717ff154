// The timeline's records, without a file: what is encoded decodes to the same, what did not change costs nothing, and
// no mangled record makes the decoder abort (nlohmann_json runs without exceptions, so every wrong access would).
#include "timeline/json_timeline.h"

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "json_schema.h"
#include "model/facts/run_model.h"
#include "random_recording.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;
using Result = RecordDecoder::Result;

Json ParseJson(absl::string_view text) { return Json::parse(text.begin(), text.end(), nullptr, false); }

// Feeds the lines of one Encode(); returns the resulting sample.
Sample Decoded(const std::string& records, RecordDecoder* decoder) {
  int samples = 0;
  for (absl::string_view line : absl::StrSplit(records, ",\n")) {
    const auto result = decoder->Decode(line);
    INFO(line.substr(0, 200));
    REQUIRE(result.ok());
    samples += *result == Result::kSample;
  }
  CHECK(samples == 1);
  return decoder->sample();
}

// A training worker after an hour: 18 figures of realistic size, among them 8 million copies.
ProcessSample Busy(int index, uint64_t step = 0) {
  return {.index = index,
          .counts = {18'234'567, 234'567, 9'123'456, 8'012'345 + step, 12'345, 3'456, 9'012'345, 456, 123'456, 12},
          .proc = {2'345'678, 23'456, 345'678, 1'234, 4'567'890, 3'604'812, 123, 16}};
}

std::string HeaderWith(const std::string& header) {
  return absl::StrCat("{\"schema\":\"cowprof.timeline/1\",\"header\":", header, ",\"records\":[");
}

// Values of other types than expected, or beyond every range.
const std::vector<Json>& OddValues() {
  static const std::vector<Json> values = {nullptr,
                                           true,
                                           "7",
                                           "",
                                           Json::array(),
                                           Json::object(),
                                           Json::array({Json::array({1})}),
                                           -1,
                                           -1e300,
                                           1e300,
                                           0.5,
                                           std::numeric_limits<int64_t>::min(),
                                           std::numeric_limits<uint64_t>::max(),
                                           2147483648.0,
                                           "\xf0\x9f\x98\x80",
                                           Json{{"pid", 1}}};
  return values;
}

// Calls `use` with `document` once for every position in it and every odd value there.
void ForEachMutation(const Json& document, const std::function<void(const Json&)>& use) {
  const Json flat = document.flatten();
  std::set<std::string> copy_sites;
  for (const auto& [pointer, unused] : flat.items()) {
    for (std::string at = pointer; !at.empty(); at = at.substr(0, at.rfind('/'))) copy_sites.insert(at);
  }
  for (const std::string& at : copy_sites) {
    for (const Json& odd : OddValues()) {
      Json mutated = document;
      mutated[Json::json_pointer(at)] = odd;
      use(mutated);
    }
  }
}

// Checks that no figure exceeds the value that a mutation put in its place.
void CheckSane(const Sample& sample, RunModel* model) {
  for (const Event& event : sample.events) REQUIRE(event.index >= -1);
  Append(sample, model);
}

}  // namespace

TEST_CASE("a header is read back unchanged") {
  const RunInfo info = RandomRecording(1).Info();
  const auto decoded = DecodeHeader(EncodeHeader(info));
  REQUIRE(decoded.ok());
  CHECK(*decoded == info);
}

TEST_CASE("a header gives back a limit of any kind") {
  RunInfo info = RandomRecording(1).Info();
  info.limits.clear();
  for (const LimitKind kind : kAll<LimitKind>) info.limits.push_back({kind, "a limit", 1000, 10});
  const auto decoded = DecodeHeader(EncodeHeader(info));
  REQUIRE(decoded.ok());
  CHECK(decoded->limits == info.limits);
}

TEST_CASE("samples are read back unchanged") {
  const unsigned seed = GENERATE(range(1u, 41u));
  INFO("seed " << seed);
  RandomRecording recording(seed);
  RecordEncoder encoder;
  RecordDecoder decoder;
  for (int i = 0; i < 40; ++i) {
    const Sample sample = recording.Next();
    const std::string records = encoder.Encode(sample);
    encoder.Commit();
    INFO(records);
    REQUIRE(Decoded(records, &decoder) == sample);
    REQUIRE(decoder.events().empty());
  }
  CHECK(*decoder.Decode(EncodeEnd(absl::Seconds(9), "target ended")) == Result::kEnd);
  CHECK_FALSE(decoder.stopped_by_target());
  CHECK(*decoder.Decode(EncodeEnd(absl::Seconds(9), kStoppedByTarget)) == Result::kEnd);
  CHECK(decoder.stopped_by_target());
}

TEST_CASE("an uncommitted sample is encoded again with the next") {
  const unsigned seed = GENERATE(range(1u, 21u));
  INFO("seed " << seed);
  RandomRecording recording(seed);
  RecordEncoder encoder;
  RecordDecoder decoder;
  RunModel expected, found;
  for (int i = 0; i < 40; ++i) {
    const Sample sample = recording.Next();
    Append(sample, &expected);
    const std::string records = encoder.Encode(sample);
    if (i % 4 < 2 && i < 38) continue;
    encoder.Commit();
    Append(Decoded(records, &decoder), &found);
  }
  // Processes that came or ended meanwhile are known with their last counts; everything else is up to date.
  REQUIRE(found.processes.size() == expected.processes.size());
  for (size_t i = 0; i < found.processes.size(); ++i) {
    INFO("process " << i);
    CHECK(found.processes[i].id == expected.processes[i].id);
    CHECK(found.processes[i].command == expected.processes[i].command);
    CHECK(found.processes[i].ended == expected.processes[i].ended);
    CHECK(found.processes[i].counts == expected.processes[i].counts);
    CHECK(found.processes[i].causes == expected.processes[i].causes);
    CHECK(found.processes[i].copy_sites == expected.processes[i].copy_sites);
    if (!expected.processes[i].execed) CHECK(found.processes[i].regions == expected.processes[i].regions);
    CHECK(found.processes[i].python == expected.processes[i].python);
  }
  CHECK(found.frames == expected.frames);
  CHECK(found.copy_sites == expected.copy_sites);
  CHECK(found.regions == expected.regions);
  CHECK(found.cause_evidence == expected.cause_evidence);
  CHECK(found.losses == expected.losses);
  REQUIRE(found.limits.size() == expected.limits.size());
  for (size_t i = 0; i < found.limits.size(); ++i) CHECK(found.limits[i].now == expected.limits[i].now);
}

TEST_CASE("a row of large figures is small, and an unchanged one costs nothing") {
  RecordEncoder encoder;
  Sample sample = {.t = absl::Seconds(604'800)};
  const auto size = [&] {
    const std::string records = encoder.Encode(sample);
    encoder.Commit();
    return records.size();
  };
  const size_t bare = size();
  CHECK(bare < 60);
  for (int i = 0; i < 64; ++i) sample.processes.push_back(Busy(10 + i));
  const size_t full = size();
  INFO("bytes a row: " << (full - bare) / 64.0);
  CHECK(full - bare <= 64 * 120);
  CHECK(size() == bare);
  sample.processes[5] = Busy(15, 1);
  CHECK(size() <= bare + 120 + sizeof(",\"processes\":[]"));
  CHECK(size() == bare);
}

TEST_CASE("causes of a process are written when they change, and remembered") {
  RecordEncoder encoder;
  RecordDecoder decoder;
  ProcessSample row = {.index = 0, .causes = CauseCounts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
  row.counts.copies = 66;
  const auto tick = [&] {
    const std::string records = encoder.Encode({.processes = {row}});
    encoder.Commit();
    Decoded(records, &decoder);
    return ParseJson(records);
  };
  CHECK(tick()["causes"].dump() == "[[0,1,2,3,4,5,6,7,8,9,10,11]]");
  CHECK_FALSE(tick().contains("causes"));
  REQUIRE(decoder.sample().processes.size() == 1);
  CHECK(decoder.sample().processes[0].causes == row.causes);
  (*row.causes)[static_cast<int>(Cause::kUnknown)] = 10;
  const Json changed = tick();
  CHECK(changed["causes"].dump() == "[[0,1,2,3,4,5,6,7,8,10,10,11]]");
  CHECK_FALSE(changed.contains("processes"));
  CHECK(decoder.sample().processes[0].causes == row.causes);
}

TEST_CASE("causes of a nonexistent process, or that are not numbers") {
  RecordDecoder decoder;
  Decoded(
      R"({"type":"sample","t":1,"processes":[[0,1]],"causes":[[1,1,1],[-1],[1e18,1],[],7,[0,-1,"1",null,1e300,2]]})",
      &decoder);
  REQUIRE(decoder.sample().processes.size() == 1);
  CHECK(decoder.sample().processes[0].causes == CauseCounts{0, 0, 0, 0, 2, 0, 0, 0, 0});
}

TEST_CASE("a process of any number has its rows: a recording of days has millions") {
  const int index = GENERATE(10'000'000, 10'000'001, 2'000'000'000);
  ProcessSample row = Busy(index);
  row.causes = CauseCounts{1, 2, 3};
  RecordEncoder encoder;
  RecordDecoder decoder;
  const Sample sample = Decoded(encoder.Encode({.t = absl::Seconds(1), .processes = {row}}), &decoder);
  REQUIRE(sample.processes.size() == 1);
  CHECK(sample.processes[0].index == index);
  CHECK(sample.processes[0].counts == row.counts);
  CHECK(sample.processes[0].causes == row.causes);
}

TEST_CASE("limits and losses are written when they change") {
  RecordEncoder encoder;
  Sample sample = {.limits = {{LimitKind::kShm, "/dev/shm", 1000, 1}, {LimitKind::kHost, "m", {}, 2}}};
  const auto encode = [&] {
    const std::string records = encoder.Encode(sample);
    encoder.Commit();
    return ParseJson(records);
  };
  const Json first = encode();
  CHECK(first["new_limits"].size() == 2);
  CHECK(first["limits"] == ParseJson("[[0,1,1000,0.0010],[1,2,null,null]]"));
  CHECK_FALSE(first.contains("losses"));
  CHECK_FALSE(encode().contains("limits"));
  sample.limits[1].used = 3;
  sample.losses.unreadable = 4;
  const Json second = encode();
  CHECK(second["limits"] == ParseJson("[[1,3,null,null]]"));
  CHECK_FALSE(second.contains("new_limits"));
  CHECK(second["losses"]["unreadable"] == 4);
  CHECK_FALSE(encode().contains("losses"));
}

TEST_CASE("names of the target's choosing stay valid JSON") {
  const std::string name =
      GENERATE(as<std::string>(), "\"", "\\", "\"},{\"t\":1", std::string("\0\1\x1f\x7f", 4), "\r\n,\n]}", "\xff\xfe",
               "\xc0\xaf", "\xed\xa0\x80", "\xf0\x9f", "\xe2\x80\xae", std::string(1 << 15, '\xff'),
               std::string(1 << 20, '"'), std::string(1 << 15, '\0'));
  Event process = {.index = 0, .what = ProcessStarted{.comm = name, .command = name}};
  Event note = {.what = Note{.text = name}};
  RecordEncoder encoder;
  const std::string records = encoder.Encode({.events = {process, note}, .limits = {{LimitKind::kShm, name, 1, 1}}});
  RunInfo info = {.kernel = name, .rung = name, .command = name, .limits = {{LimitKind::kShm, name, 1, 1}}};
  info.rejected = {{name, name, name}};
  const std::string header = EncodeHeader(info);
  CHECK(std::count(header.begin(), header.end(), '\n') == 0);
  CHECK(std::count(records.begin(), records.end(), '\n') == 2);
  CHECK(ParseJson(header + records + "]}").is_object());
  CHECK(ParseJson(EncodeEnd({}, name)).is_object());
  RecordDecoder decoder;
  CHECK(Decoded(records, &decoder).events.size() == 2);
  CHECK(DecodeHeader(header).ok());
}

TEST_CASE("a newer schema is refused, naming both numbers") {
  const auto newer = DecodeHeader("{\"schema\":\"cowprof.timeline/37\",\"header\":{},\"records\":[");
  REQUIRE(newer.status().code() == absl::StatusCode::kUnimplemented);
  CHECK(absl::StrContains(newer.status().message(), "cowprof.timeline/37"));
  CHECK(absl::StrContains(newer.status().message(), "cowprof.timeline/1"));
}

TEST_CASE("anything but a timeline is refused in one sentence") {
  const std::string line =
      GENERATE("", "{", "[]", "7", "null", "hello", "{\"records\":[", "{\"schema\":7,\"records\":[",
               "{\"schema\":\"cowprof.timeline/\",\"records\":[", "{\"schema\":\"cowprof.timeline/x\",\"records\":[",
               "{\"schema\":\"cowprof.report/1\",\"records\":[", "{\"schema\":[\"cowprof.timeline/1\"],\"records\":[",
               "{\"schema\":\"cowprof.timeline/99999999999999999999\",\"records\":[");
  const auto info = DecodeHeader(line);
  REQUIRE(info.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_FALSE(absl::StrContains(info.status().message(), "\n"));
}

TEST_CASE("a header with any value anywhere is read or refused") {
  const std::string text = EncodeHeader(RandomRecording(2).Info());
  ForEachMutation(ParseJson(text + "]}"), [](const Json& mutated) {
    std::string line = mutated.dump();
    if (mutated.contains("records")) line = absl::StrCat(line.substr(0, line.rfind("[]") + 1));
    const auto info = DecodeHeader(line);
    if (!info.ok()) return;
    REQUIRE(info->page_bytes >= 1);
  });
  CHECK(DecodeHeader(HeaderWith("[]")).ok());
  CHECK(DecodeHeader(HeaderWith("{\"host\":{\"page_bytes\":0}}"))->page_bytes == 1);
}

TEST_CASE("records with any value anywhere are read or skipped", "[long]") {
  RandomRecording recording(3);
  RecordEncoder encoder;
  for (int i = 0; i < 4; ++i) {
    for (absl::string_view line : absl::StrSplit(encoder.Encode(recording.Next()), ",\n")) {
      const Json record = ParseJson(line);
      RunModel model;
      ForEachMutation(record, [&](const Json& mutated) {
        RecordDecoder decoder;
        const auto result = decoder.Decode(mutated.dump());
        REQUIRE(result.ok() == mutated.is_object());
        const auto sample = decoder.Decode("{\"type\":\"sample\",\"t\":1}");
        REQUIRE(sample.ok());
        CheckSane(decoder.sample(), &model);
      });
    }
  }
}

TEST_CASE("impossible figures are absent") {
  const std::string odd =
      GENERATE("-1", "-1e300", "1e300", "\"12\"", "[12]", "{}", "true", "null", "18446744073709551616");
  INFO(odd);
  RecordDecoder decoder;
  const std::string row = absl::StrCat("[0,", odd, ",", odd, ",", odd, ",", odd, "]");
  const std::string sweep = absl::StrCat("[0,", odd, ",", odd, ",", odd, ",", odd, ",", odd, "]");
  REQUIRE(decoder
              .Decode(absl::StrCat("{\"t\":", odd, ",\"type\":\"sample\",\"processes\":[", row, "],\"rollups\":[",
                                   sweep, "],\"sweeps\":[", sweep, "],\"losses\":{\"unreadable\":", odd, "}}"))
              .ok());
  REQUIRE(decoder.sample().processes.size() == 1);
  const ProcessSample& process = decoder.sample().processes[0];
  CHECK_FALSE(process.counts.faults.has_value());
  CHECK_FALSE(process.counts.copies.has_value());
  CHECK_FALSE(process.proc.threads.has_value());
  CHECK(process.sweep->private_pages == 0);
  CHECK(process.rollup->private_bytes == 0);
  CHECK(decoder.sample().losses.unreadable == 0);
}

TEST_CASE("ranks that no job has are absent") {
  const auto rank_of = [](const std::string& rank, const std::string& size) {
    RecordDecoder decoder;
    REQUIRE(decoder
                .Decode(absl::StrCat(R"({"t":1,"type":"event","event":"rank","index":0,"source":"torch","rank":)", rank,
                                     ",\"local_rank\":", rank, ",\"world_size\":", size, ",\"job_id\":null}"))
                .ok());
    REQUIRE(decoder.Decode(R"({"t":2,"type":"sample"})").ok());
    REQUIRE(decoder.sample().events.size() == 1);
    return std::get<RankFound>(decoder.sample().events[0].what).rank;
  };
  CHECK(rank_of("999999", "1000000") == RankFacts{RankSource::kTorch, 999'999u, 999'999u, 1'000'000u, ""});
  CHECK(rank_of("1000000", "1000001") == RankFacts{.source = RankSource::kTorch, .job_id = ""});
  CHECK(rank_of("18446744073709551615", "18446744073709551615") ==
        RankFacts{.source = RankSource::kTorch, .job_id = ""});
}

TEST_CASE("indexes out of range, unknown names and deep nesting do no harm") {
  RecordDecoder decoder;
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::string cyclic = absl::StrCat("{\"t\":1,\"type\":\"sample\",\"processes\":", deep, "}");
  for (const std::string& record :
       {std::string("{\"type\":\"sample\",\"processes\":[[-1,5],[4294967296,5],[1e18,5],[],[[]],7,[0.5]]}"),
        std::string("{\"type\":\"sample\",\"limits\":[[0,1],[-1,1],[99,1]],\"rollups\":[[3,1]],\"sweeps\":[[]]}"),
        std::string("{\"type\":\"sample\",\"new_limits\":[7,{},{\"kind\":\"moon\"}],\"limits\":[[9,1]]}"),
        std::string("{\"type\":\"event\",\"event\":\"eclipse\",\"index\":-7}"), std::string("{\"type\":\"comet\"}"),
        std::string("{\"type\":7}"), std::string("{}"), cyclic}) {
    INFO(record.substr(0, 100));
    CHECK(decoder.Decode(record).ok());
  }
  for (const std::string& record : {std::string("["), std::string(""), std::string("7"), deep, std::string("\xff")}) {
    CHECK_FALSE(decoder.Decode(record).ok());
  }
  RunModel model;
  REQUIRE(decoder.Decode("{\"type\":\"sample\",\"t\":2}").ok());
  Append(decoder.sample(), &model);
  CHECK(model.processes.empty());
}

TEST_CASE("an object of thousands of members is refused, however many a record has in all") {
  const auto object_of = [](int members) {
    std::string object = "{\"::\\\"{\":0";
    for (int i = 1; i < members; ++i) absl::StrAppend(&object, ",\"", i, "\":0");
    return object + "}";
  };
  const std::string most = object_of(1024), more = object_of(1025);
  const auto decodes = [](const std::string& member) {
    RecordDecoder decoder;
    return decoder.Decode(absl::StrCat("{\"t\":1,\"type\":\"sample\",\"later\":", member, "}")).ok() &&
           decoder.Decode(absl::StrCat("{\"t\":2,\"type\":\"event\",\"later\":", member, "}")).ok();
  };
  CHECK(decodes(most));
  CHECK(decodes(absl::StrCat("[", most, ",", most, "]")));
  CHECK_FALSE(decodes(more));
  CHECK_FALSE(decodes(absl::StrCat("[{},", more, "]")));
  CHECK(DecodeHeader(HeaderWith(most)).ok());
  CHECK(DecodeHeader(HeaderWith(more)).status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace cowprof
