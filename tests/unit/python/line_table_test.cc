// line_table.cc on the three formats of CPython's line tables: hand-made, truncated, and random bytes.
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "python/frames.h"

namespace cowprof {
namespace {

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

}  // namespace

TEST_CASE("lines: co_lnotab, 3.6 to 3.9") {
  // 6 bytes on line 10, then 300 bytes (255 + 45) on line 13, then back to 11.
  const std::string table = Bytes({6, 3, 255, 0, 45, -2});
  const auto line = [&table](int64_t offset) { return LineOf(LineTableKind::kLnotab, table, 10, offset); };
  CHECK(line(-1) == 10);
  CHECK(line(0) == 10);
  CHECK(line(5) == 10);
  CHECK(line(6) == 13);
  CHECK(line(305) == 13);
  CHECK(line(306) == 11);
  CHECK(line(100000) == 11);
}

TEST_CASE("lines: co_linetable of 3.10") {
  // [0, 4) line 10, [4, 8) no line, [8, 12) line 11.
  const std::string table = Bytes({4, 0, 4, -128, 4, 1});
  const auto line = [&table](int64_t offset) { return LineOf(LineTableKind::kLinetable, table, 10, offset); };
  CHECK(line(-1) == 10);
  CHECK(line(3) == 10);
  CHECK(line(4) == 0);
  CHECK(line(8) == 11);
  CHECK(line(12) == 0);  // after the end
}

TEST_CASE("lines: location table, 3.11 and later") {
  const auto entry = [](int form, int units) { return 0x80 | form << 3 | (units - 1); };
  const std::string table = Bytes({
      entry(0, 2), 0x11,                    // short: the same line
      entry(11, 1), 1, 2,                   // one line: + 1
      entry(13, 8), 0x03,                   // no columns: - 1
      entry(15, 1),                         // none
      entry(14, 1), 0x40 | 16, 1, 0, 1, 1,  // long: varint 16 + 64 = 80, + 40
  });
  const auto line = [&table](int64_t offset) { return LineOf(LineTableKind::kLocations, table, 100, offset); };
  CHECK(line(-2) == 100);
  CHECK(line(0) == 100);
  CHECK(line(3) == 100);
  CHECK(line(4) == 101);
  CHECK(line(6) == 100);
  CHECK(line(21) == 100);
  CHECK(line(22) == 0);
  CHECK(line(24) == 140);
  CHECK(line(26) == 0);
}

TEST_CASE("lines: empty tables and any bytes") {
  std::mt19937 random(20);
  for (const LineTableKind kind : {LineTableKind::kLnotab, LineTableKind::kLinetable, LineTableKind::kLocations}) {
    CHECK(LineOf(kind, "", 7, -1) == 7);
    CHECK(LineOf(kind, "", -7, -1) == 0);
    for (int i = 0; i < 20000; ++i) {
      std::string table(random() % 40, '\0');
      for (char& c : table) c = static_cast<char>(random());
      CHECK(LineOf(kind, table, static_cast<int>(random()), static_cast<int64_t>(random() % 200) - 2) >= 0);
    }
    CHECK(LineOf(kind, std::string(1 << 20, '\xff'), INT32_MAX, INT64_MAX) >= 0);
    CHECK(LineOf(kind, std::string(1 << 20, '\x7f'), INT32_MAX, INT64_MAX) >= 0);
  }
}

}  // namespace cowprof
