#include "watch/match.h"

#include <catch2/catch.hpp>
#include <string>

#include "posix/clock.h"

using namespace cowprof;

TEST_CASE("match: an extended regular expression") {
  const auto pattern = CommandPattern::Compile("^gunicorn: (master|arbiter)");
  REQUIRE(pattern.ok());
  CHECK(pattern->Matches("gunicorn: master [app]"));
  CHECK_FALSE(pattern->Matches("xgunicorn: master"));
  for (const char* wrong : {"(", "[a", "a{2", "(a)\\1"}) CHECK_FALSE(CommandPattern::Compile(wrong).ok());
  CHECK(CommandPattern::Compile("a\\\\1").ok());  // a backslash and a 1
}

TEST_CASE("match: a hostile command line takes no time") {
  const auto pattern = CommandPattern::Compile("(a|aa|aaa)*b.*(c+)+$");
  REQUIRE(pattern.ok());
  const absl::Duration began = ReadClock(CLOCK_PROCESS_CPUTIME_ID);
  CHECK_FALSE(pattern->Matches(std::string(5'000'000, 'a')));
  CHECK_FALSE(pattern->Matches("b" + std::string(5'000'000, 'c')) == false);
  CHECK(ReadClock(CLOCK_PROCESS_CPUTIME_ID) - began < absl::Seconds(1));
}
