// The same records, in the same order, with a thread and without.
#include "timeline/records_ahead.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

// What Next() gives, each with whether it was taken apart; without a thread nothing is.
std::vector<std::string> Texts(const std::string& lines, bool ahead) {
  std::istringstream in(lines);
  RecordsAhead records(&in, ahead);
  std::vector<std::string> texts;
  while (const RawRecord* record = records.Next()) {
    CHECK(record->is_plain.has_value() == (ahead && record->line.size() <= 1 << 20));
    PlainRecord plain;
    if (record->is_plain) CHECK(*record->is_plain == plain.Read(record->text));
    if (record->is_plain.value_or(false)) CHECK(record->plain.t() == plain.t());
    texts.emplace_back(record->text);
  }
  CHECK(records.Next() == nullptr);
  return texts;
}

std::string SampleAt(int t, size_t rows) {
  std::string line = absl::StrCat(",{\"t\":", t, ",\"type\":\"sample\",\"processes\":[[0,1]");
  for (size_t i = 1; i < rows; ++i) absl::StrAppend(&line, ",[", i, ",", t, "]");
  return absl::StrCat(line, "]}\n");
}

TEST_CASE("records ahead: lines of all lengths come as they are in the file", "[records_ahead]") {
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += SampleAt(i, i % 100 == 0 ? 3000 : 1 + i % 7);
  for (int i = 0; i < 3; ++i) absl::StrAppend(&lines, SampleAt(i, 200'000), "no record\n", SampleAt(i, 1));
  for (const char* end : {"", "\n", "]}\n", ",{\"t\":7,\"type\":\"sa"}) {
    const std::string all = lines + end;
    const std::vector<std::string> texts = Texts(all, /*ahead=*/true);
    CHECK(texts.size() >= 3009);
    CHECK(texts == Texts(all, /*ahead=*/false));
  }
  CHECK(Texts("", /*ahead=*/true).empty());
}

TEST_CASE("records ahead: who needs no more of them does not wait for the rest", "[records_ahead]") {
  std::string lines;
  for (int i = 0; i < 20'000; ++i) lines += SampleAt(i, 20);
  for (const int taken : {0, 1, 300, 5000}) {
    std::istringstream in(lines);
    RecordsAhead records(&in, /*ahead=*/true);
    for (int i = 0; i < taken; ++i) REQUIRE(records.Next() != nullptr);
  }
}

}  // namespace
}  // namespace cowprof
