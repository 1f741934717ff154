// Both readers of a recording's records side by side, the plain one and the JSON parser, and records that tempt them to
// disagree. Shared by the unit tests and the fuzz targets.
#ifndef COWPROF_TESTS_UNIT_RECORD_READERS_H_
#define COWPROF_TESTS_UNIT_RECORD_READERS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "timeline/json_timeline.h"

namespace cowprof {

class RecordReaders {
 public:
  // Whether both take the record for the same.
  bool Agree(absl::string_view record) {
    const auto quick = quick_.Decode(record), thorough = thorough_.DecodeAny(record);
    return quick.status() == thorough.status() && (!quick.ok() || *quick == *thorough) &&
           quick_.sample() == thorough_.sample() && quick_.raised() == thorough_.raised() &&
           quick_.events() == thorough_.events() && quick_.alerts() == thorough_.alerts() &&
           quick_.stopped_by_target() == thorough_.stopped_by_target();
  }

 private:
  RecordDecoder quick_, thorough_;
};

inline void CollectLeaves(nlohmann::ordered_json* value, std::vector<nlohmann::ordered_json*>* leaves) {
  if (!value->is_structured() || value->empty()) leaves->push_back(value);
  for (nlohmann::ordered_json& inner : *value) {
    if (value->is_structured()) CollectLeaves(&inner, leaves);
  }
}

// Replaces one value of a line by one that breaks careless arithmetic, conversions or type checks.
inline std::string WithOddValue(absl::string_view line, std::mt19937* random) {
  using Json = nlohmann::ordered_json;
  static const std::vector<Json> kOdd = {
      0,          1,      -1,        2,         255,          65536,         1LL << 31,      1LL << 32, 1LL << 53,
      1ULL << 62, ~0ULL,  INT64_MAX, INT64_MIN, ~0ULL - 4095, 0.5,           -0.5,           1e15,      1e19,
      1e300,      -1e300, nullptr,   true,      "",           Json::array(), Json::object(), "\x1b[2J", "refcount"};
  const std::string whole(line);
  // The first line opens an object and a list that the last one closes.
  const bool first = absl::ConsumeSuffix(&line, "\"records\":[");
  const bool before = absl::ConsumePrefix(&line, ","), after = absl::ConsumeSuffix(&line, ",");
  Json json = Json::parse(absl::StrCat(line, first ? "}" : ""), nullptr, false);
  if (json.is_discarded()) return whole;
  std::vector<Json*> leaves;
  CollectLeaves(&json, &leaves);
  *leaves[(*random)() % leaves.size()] = kOdd[(*random)() % kOdd.size()];
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (first) text.pop_back();
  return absl::StrCat(before ? "," : "", text, after ? "," : "", first ? "\"records\":[" : "");
}

// Puts a piece of text somewhere in the line, or in place of a few of its characters: mostly not JSON any more, and
// where it is, spelled as cowprof does not spell it.
inline std::string WithOddText(std::string line, std::mt19937* random) {
  static const std::vector<std::string> kOdd = {"0",
                                                "00",
                                                "-0",
                                                "-1",
                                                "1",
                                                ".",
                                                ".5",
                                                "1.",
                                                "0.0",
                                                "0.000000",
                                                "123456789.123456",
                                                "1234567890.123456",
                                                "0.1",
                                                "9007199254740993",
                                                "9007199254740993.0",
                                                "999999999999999999",
                                                "9999999999999999999",
                                                "18446744073709551615",
                                                "18446744073709551616",
                                                "99999999999999999999",
                                                "1e3",
                                                "1E-3",
                                                "1e400",
                                                "null",
                                                "nul",
                                                "NULL",
                                                "true",
                                                "\"",
                                                "\\",
                                                "\\\"",
                                                "\\u0041",
                                                "\"x\"",
                                                "\"\xc3\xa9\"",
                                                "\xff",
                                                "\x7f",
                                                "\t",
                                                " ",
                                                "\n",
                                                "\r",
                                                std::string(1, '\0'),
                                                "[",
                                                "]",
                                                "[]",
                                                "[[]]",
                                                "[[1]]",
                                                "[1,[2,3]]",
                                                "[1,[[2]]]",
                                                "[{}]",
                                                "{",
                                                "}",
                                                "{}",
                                                ",",
                                                ",,",
                                                ":",
                                                "],[",
                                                "]]",
                                                "[[",
                                                ",\"processes\":[[0,5]]",
                                                ",\"processes\":5",
                                                ",\"type\":\"event\"",
                                                ",\"t\":7",
                                                ",\"t\":[[7]]",
                                                ",\"process\\u0065s\":[[0,5]]",
                                                ",\"limits\":{\"a\":[[1]]}",
                                                ",\"pages\":[[0,\"data\",1,[1,2,3]]]",
                                                ",\"losses\":[[1]]",
                                                ",\"shm\":[[1]]",
                                                ",\"\":[[1]]",
                                                ",\"other\":\"]}\"",
                                                "\xef\xbb\xbf"};
  const size_t at = (*random)() % (line.size() + 1);
  const size_t removed = (*random)() % 2 == 0 ? 0 : (*random)() % 8;
  return line.replace(at, removed, kOdd[(*random)() % kOdd.size()]);
}

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_RECORD_READERS_H_
