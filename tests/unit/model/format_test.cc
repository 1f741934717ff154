// How format.cc spells figures where the spelling turns (1023 B, 1.0 KiB), and that nothing the target calls
// itself can steer a terminal: controls, bidirectional marks and malformed UTF-8 become \xNN.
#include "model/format.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "absl/strings/match.h"

namespace cowprof {

TEST_CASE("bytes at the turns of the unit") {
  constexpr uint64_t kKi = 1024, kMi = kKi * kKi, kGi = kMi * kKi, kTi = kGi * kKi;
  CHECK(HumanBytes(uint64_t{0}) == "0 B");
  CHECK(HumanBytes(uint64_t{1}) == "1 B");
  CHECK(HumanBytes(kKi - 1) == "1023 B");
  CHECK(HumanBytes(kKi) == "1.0 KiB");
  CHECK(HumanBytes(kKi + 51) == "1.0 KiB");
  CHECK(HumanBytes(kKi + 52) == "1.1 KiB");
  CHECK(HumanBytes(kMi - 53) == "1023.9 KiB");
  CHECK(HumanBytes(kMi - 1) == "1.0 MiB");
  CHECK(HumanBytes(kMi) == "1.0 MiB");
  CHECK(HumanBytes(kGi - 1) == "1.0 GiB");
  CHECK(HumanBytes(kGi) == "1.0 GiB");
  CHECK(HumanBytes(kTi - 1) == "1.0 TiB");
  CHECK(HumanBytes(kTi) == "1.0 TiB");
  CHECK(HumanBytes(5000 * kTi) == "5000.0 TiB");
  CHECK(HumanBytes(std::numeric_limits<uint64_t>::max()) == "16777216.0 TiB");
  CHECK(HumanBytes(Count()) == "-");
  CHECK(HumanBytes(Count(0)) == "0 B");
  CHECK(HumanBytes(Count(327'575'962)) == "312.4 MiB");
}

TEST_CASE("counts are grouped by thousands") {
  CHECK(HumanCount(uint64_t{0}) == "0");
  CHECK(HumanCount(uint64_t{999}) == "999");
  CHECK(HumanCount(uint64_t{1000}) == "1,000");
  CHECK(HumanCount(uint64_t{79'981}) == "79,981");
  CHECK(HumanCount(uint64_t{999'999}) == "999,999");
  CHECK(HumanCount(uint64_t{1'000'000}) == "1,000,000");
  CHECK(HumanCount(std::numeric_limits<uint64_t>::max()) == "18,446,744,073,709,551,615");
  CHECK(HumanCount(Count()) == "-");
  CHECK(HumanCount(Count(1234)) == "1,234");
}

TEST_CASE("durations at the turns of the unit") {
  CHECK(HumanDuration(absl::ZeroDuration()) == "0.0 s");
  CHECK(HumanDuration(absl::Seconds(-5)) == "0.0 s");
  CHECK(HumanDuration(absl::Milliseconds(49)) == "0.0 s");
  CHECK(HumanDuration(absl::Milliseconds(51)) == "0.1 s");
  CHECK(HumanDuration(absl::Milliseconds(12'300)) == "12.3 s");
  CHECK(HumanDuration(absl::Milliseconds(99'940)) == "99.9 s");
  CHECK(HumanDuration(absl::Milliseconds(99'950)) == "1 min 40 s");
  CHECK(HumanDuration(absl::Seconds(245)) == "4 min 05 s");
  CHECK(HumanDuration(absl::InfiniteDuration()) == HumanDuration(absl::Seconds(1'000'000'000'000'000)));
  CHECK(HumanDuration(absl::Milliseconds(3'599'400)) == "59 min 59 s");
  CHECK(HumanDuration(absl::Milliseconds(3'599'600)) == "1 h 00 min");
  CHECK(HumanDuration(absl::Hours(26)) == "26 h 00 min");
}

TEST_CASE("nouns agree with their number") {
  CHECK(Plural(0, "worker") == "0 workers");
  CHECK(Plural(1, "worker") == "1 worker");
  CHECK(Plural(2, "sample") == "2 samples");
  CHECK(Plural(1000, "worker") == "1,000 workers");
  CHECK(WithArticle("_thread.lock") == "a _thread.lock");
  CHECK(WithArticle("int") == "an int");
  CHECK(WithArticle("OSError") == "an OSError");
}

TEST_CASE("what can be printed stays as it is") {
  const std::string text = GENERATE(as<std::string>(), "", "python train.py --lr=0.1", "na\xc3\xafve", "\xe2\x82\xac",
                                    "\xe4\xb8\xad\xe6\x96\x87", "\xf0\x9f\x90\x84", "\xc2\xa0", "\xf4\x8f\xbf\xbf",
                                    "\xed\x9f\xbf", "\xee\x80\x80", "e\xcc\x81", "a\\x1b[31m");
  CHECK(Printable(text) == text);
}

TEST_CASE("control characters are spelled out") {
  CHECK(Printable(std::string("\0", 1)) == "\\x00");
  CHECK(Printable("\x1b[31mred") == "\\x1b[31mred");
  CHECK(Printable("a\nb\r\tc") == "a\\x0ab\\x0d\\x09c");
  CHECK(Printable("\x7f") == "\\x7f");
  CHECK(Printable("\xc2\x9b") == "\\xc2\\x9b");  // CSI, as one C1 character
  CHECK(Printable("\xc2\x80\xc2\x9f") == "\\xc2\\x80\\xc2\\x9f");
}

TEST_CASE("marks that turn the direction, or are not seen at all, are spelled out") {
  CHECK(Printable("\xe2\x80\xae") == "\\xe2\\x80\\xae");  // U+202E
  for (const std::string mark :
       {"\xe2\x80\x8b", "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaa", "\xe2\x80\xab",
        "\xe2\x80\xac", "\xe2\x80\xad", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9",
        "\xd8\x9c", "\xef\xbb\xbf"}) {
    const std::string printed = Printable("a" + mark + "b");
    INFO(printed);
    CHECK(absl::StartsWith(printed, "a\\x"));
    CHECK(printed.size() == 2 + 4 * mark.size());
  }
}

TEST_CASE("malformed UTF-8 is spelled out byte by byte") {
  CHECK(Printable("\xc0\xaf") == "\\xc0\\xaf");  // overlong /
  CHECK(Printable("\xc1\xbf") == "\\xc1\\xbf");
  CHECK(Printable("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");
  CHECK(Printable("\xe0\x9f\xbf") == "\\xe0\\x9f\\xbf");
  CHECK(Printable("\xf0\x80\x80\xaf") == "\\xf0\\x80\\x80\\xaf");
  CHECK(Printable("\xf0\x8f\xbf\xbf") == "\\xf0\\x8f\\xbf\\xbf");
  CHECK(Printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // a surrogate
  CHECK(Printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  CHECK(Printable("\xf5\x80\x80\x80") == "\\xf5\\x80\\x80\\x80");
  CHECK(Printable("\xff\xfe\x80") == "\\xff\\xfe\\x80");
  CHECK(Printable("a\x80"
                  "b") == "a\\x80b");
  // Cut off in the middle, at the end and before more text.
  CHECK(Printable("\xc3") == "\\xc3");
  CHECK(Printable("\xe2\x82") == "\\xe2\\x82");
  CHECK(Printable("\xf0\x9f\x90") == "\\xf0\\x9f\\x90");
  CHECK(Printable("\xe2\x82z") == "\\xe2\\x82z");
  CHECK(Printable("\xe2\xe2\x82\xac") == "\\xe2\xe2\x82\xac");
}

TEST_CASE("the cut at a length splits neither a character nor an escape") {
  const std::string text = "ab\xe2\x82\xac\x1b\xf0\x9f\x90\x84z";
  const std::string whole = Printable(text);
  CHECK(whole == "ab\xe2\x82\xac\\x1b\xf0\x9f\x90\x84z");
  const std::string pieces[] = {
      "", "a", "ab", "ab\xe2\x82\xac", "ab\xe2\x82\xac\\x1b", "ab\xe2\x82\xac\\x1b\xf0\x9f\x90\x84", whole};
  for (size_t most = 0; most < whole.size(); ++most) {
    std::string longest;
    for (const std::string& piece : pieces) {
      if (piece.size() <= most) longest = piece;
    }
    INFO(most);
    CHECK(Printable(text, most) == longest + "...");
  }
  CHECK(Printable(text, whole.size()) == whole);
  CHECK(Printable(std::string(1 << 20, 'a')).size() == 120 + 3);
  CHECK(Printable(std::string(120, 'a')) == std::string(120, 'a'));
}

TEST_CASE("every pair of bytes prints as UTF-8 without controls") {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string printed = Printable(std::string{static_cast<char>(first), static_cast<char>(second)});
      for (const char byte : printed) REQUIRE(static_cast<unsigned char>(byte) >= 0x20);
      REQUIRE_FALSE(absl::StrContains(printed, "\x7f"));
      REQUIRE(Printable(printed) == printed);
    }
  }
}

TEST_CASE("what is not UTF-8 is escaped as it is printed, and nothing else") {
  for (const auto& [text, valid] : std::map<std::string, std::string>{{"", ""},
                                                                      {"a\n\x7f\u202e\u20ac", "a\n\x7f\u202e\u20ac"},
                                                                      {"bad\xff\xfe", "bad\\xff\\xfe"},
                                                                      {"cut\xe2\x82", "cut\\xe2\\x82"},
                                                                      {"\xed\xa0\x80", "\\xed\\xa0\\x80"}}) {
    INFO(valid);
    CHECK(ValidUtf8(text) == valid);
    CHECK(Printable(ValidUtf8(text)) == Printable(text));
  }
}

}  // namespace cowprof
