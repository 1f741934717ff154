// The plain reader of samples against the JSON parser: whatever a record says, it says it through both.
#include "timeline/plain_record.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "random_recording.h"
#include "record_readers.h"

namespace cowprof {
namespace {

std::vector<std::string> Records(unsigned seed, int samples) {
  RandomRecording recording(seed);
  RecordEncoder encoder;
  std::vector<std::string> records;
  for (int i = 0; i < samples; ++i) {
    for (absl::string_view record : absl::StrSplit(encoder.Encode(recording.Next()), ",\n"))
      records.emplace_back(record);
    encoder.Commit();
  }
  return records;
}

std::vector<Count> CountsOf(const PlainRecord& record, absl::string_view key) {
  std::vector<Count> counts;
  record.ForEachRow(key, [&](const PlainRow& row) {
    for (size_t i = 0; i < row.cells.size(); ++i) counts.push_back(CountAt(row, i));
  });
  return counts;
}

TEST_CASE("the rows that cowprof writes are plain") {
  ProcessSample process = {.index = 3,
                           .counts = {.copies = 2'345'678'901'234'567'890u},
                           .causes = CauseCounts{1, 2},
                           .rollup = RollupFigures{.t = absl::Microseconds(123'456'789'012)},
                           .sweep = SweepFigures{.begin = absl::Seconds(1), .end = absl::Seconds(2)},
                           .collector_on = true,
                           .framework = Framework::kDataLoader};
  Sample sample = {.t = absl::Seconds(604'800), .processes = {process}};
  sample.pages = {{3, Cause::kData, 7, 2}, {3, Cause::kData, 12, 1}};
  sample.limits = {{LimitKind::kShm, "/dev/shm", 1000, 10}};
  RecordEncoder encoder;
  encoder.Encode(sample);
  encoder.Commit();
  sample.t += absl::Seconds(1);
  ++*sample.processes[0].counts.copies;
  ++sample.limits[0].used;
  const std::string text = encoder.Encode(sample);
  INFO(text);
  PlainRecord record;
  REQUIRE(record.Read(text));
  CHECK(record.rest().empty());
  CHECK(record.t() == 604'801);
  CHECK(CountsOf(record, "processes").size() == 19);
}

TEST_CASE("a plain record keeps what is not plain as JSON") {
  PlainRecord record;
  REQUIRE(record.Read(R"({"t":1,"type":"sample","a":[[1,null]],"b":{"c":"}],"},"d":[[-1]],"e":[[2],[3,"x"]],"f":[]})"));
  CHECK(record.rest() == R"({"b":{"c":"}],"},"d":[[-1]],"f":[]})");
  CHECK(CountsOf(record, "a") == std::vector<Count>{1, std::nullopt});
  CHECK(CountsOf(record, "e") == std::vector<Count>{2, 3, std::nullopt});
  CHECK(CountsOf(record, "d").empty());
}

TEST_CASE("records that the plain reader leaves to the JSON parser") {
  const std::string record = GENERATE(
      as<std::string>(), "", "{", "7", R"({"t":1,"type":"event"})", R"({"type":"sample","t":1})",
      R"({"t":-1,"type":"sample"})", R"({"t":01,"type":"sample"})", R"({"t":1,"type":"sample"}})",
      R"({"t":1,"type":"sample"} )", R"({"t":1,"type":"sample","a":1,"a":[[2]]})",
      R"({"t":1,"type":"sample","a":[[2]],"a":1})", R"({"t":1,"type":"sample","t":2})",
      R"({"t":1,"type":"sample","\u0061":[[2]]})", R"({"t":1,"type":"sample","a":"x)", R"({"t":1,"type":"sample",})");
  CHECK_FALSE(PlainRecord().Read(record));
}

TEST_CASE("both readers of records take any number for the same") {
  const std::string number = GENERATE(
      as<std::string>(), "0", "-0", "7", "0.1", "0.3", "1.005", "123456789.123456", "999999999.999999", "0.000001",
      "9007199254740993", "9007199254740993.0", "9999999999999999999", "18446744073709551615", "18446744073709551616",
      "99999999999999999999", "1e3", "1.5e1", "-1", "-0.5", "00", "1.", ".5", "null", "true", "\"7\"", "[7]", "{}");
  INFO(number);
  RecordReaders readers;
  CHECK(readers.Agree(absl::StrCat(R"({"t":)", number, R"(,"type":"sample","processes":[[0,)", number, "],[", number,
                                   R"(,5]],"rollups":[[0,)", number, ",", number, R"(]],"pages":[[0,"data",5,[)",
                                   number, R"(,1,2]]],"causes":[[0,1,)", number, "]]}")));
}

// Eight bytes are looked at at once: each byte in each place, after digits and before them.
TEST_CASE("both readers of records end a number at the same byte") {
  RecordReaders readers;
  for (int length = 1; length <= 9; ++length) {
    for (int at = 0; at <= length; ++at) {
      for (int byte = 1; byte < 256; ++byte) {
        std::string digits = std::string("918273645", length);
        digits.insert(at, 1, static_cast<char>(byte));
        const std::string record = absl::StrCat(R"({"t":1,"type":"sample","processes":[[0,)", digits, "]]}");
        INFO(record);
        REQUIRE(readers.Agree(record));
      }
    }
  }
}

TEST_CASE("both readers of records agree on recordings, whole and mutated", "[long]") {
  const unsigned seed = GENERATE(range(1u, 9u));
  std::mt19937 random(seed);
  const std::vector<std::string> records = Records(seed, 30);
  RecordReaders readers;
  for (const std::string& record : records) {
    INFO(record);
    REQUIRE(readers.Agree(record));
    for (int i = 0; i < 40; ++i) {
      std::string mutated = record;
      for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
        mutated = random() % 3 == 0 ? WithOddValue(mutated, &random) : WithOddText(std::move(mutated), &random);
      INFO(mutated);
      REQUIRE(readers.Agree(mutated));
    }
  }
}

}  // namespace
}  // namespace cowprof
