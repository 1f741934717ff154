// When self_throttle.cc stretches the time between ticks and when it takes it back, from figures given by hand; and
// that the first ticks come quicker. How much CPU time a tick really takes is not its matter.
#include "recorder/self_throttle.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

constexpr absl::Duration kWanted = absl::Seconds(1);

absl::Duration Next(int seconds, double share) { return NextInterval(absl::Seconds(seconds), kWanted, share); }

}  // namespace

TEST_CASE("an interval that costs little stays") {
  CHECK(Next(1, 0) == absl::Seconds(1));
  CHECK(Next(1, 0.001) == absl::Seconds(1));
  CHECK(Next(1, 0.015) == absl::Seconds(1));
  CHECK(Next(1, 0.02) == absl::Seconds(1));
}

TEST_CASE("above 2 % of a core the interval doubles, up to four times the wanted one") {
  CHECK(Next(1, 0.021) == absl::Seconds(2));
  CHECK(Next(2, 0.021) == absl::Seconds(4));
  CHECK(Next(3, 5.0) == absl::Seconds(4));
  CHECK(Next(4, 0.9) == absl::Seconds(4));
}

TEST_CASE("a stretched interval is halved once that would do, never below the wanted one") {
  CHECK(Next(4, 0.001) == absl::Seconds(2));
  CHECK(Next(2, 0.001) == absl::Seconds(1));
  CHECK(NextInterval(absl::Milliseconds(1500), kWanted, 0) == kWanted);
  // At 1.5 % half the interval would cost 3 %.
  CHECK(Next(4, 0.015) == absl::Seconds(4));
  CHECK(Next(2, 0.0101) == absl::Seconds(2));
}

TEST_CASE("a constant cost settles") {
  // Cost of one tick, as a share of a core at the wanted interval.
  const double cost = GENERATE(0.0, 0.001, 0.019, 0.021, 0.03, 0.039, 0.041, 0.079, 0.2, 3.0);
  absl::Duration interval = kWanted, before;
  for (int i = 0; i < 20; ++i) {
    before = interval;
    interval = NextInterval(interval, kWanted, cost * absl::FDivDuration(kWanted, interval));
    REQUIRE(interval >= kWanted);
    REQUIRE(interval <= 4 * kWanted);
  }
  INFO(cost);
  CHECK(interval == before);
  CHECK((cost * absl::FDivDuration(kWanted, interval) <= 0.02 || interval == 4 * kWanted));
}

TEST_CASE("the first ticks come quicker, each twice as late as the one before") {
  SelfThrottle throttle(absl::Seconds(1));
  absl::Duration t;
  for (const int expected : {100, 200, 400, 800, 1000, 1000}) {
    CHECK(throttle.interval() == absl::Milliseconds(expected));
    // This test may burn CPU; less than 5 s of recording are never measured.
    CHECK_FALSE(throttle.Adjust(t += absl::Milliseconds(10), {}).has_value());
  }
  CHECK(SelfThrottle(absl::Milliseconds(50)).interval() == absl::Milliseconds(50));
}

TEST_CASE("events make ticks at once, until those have cost more than 1 % of the time since") {
  EventPace pace;
  absl::Duration t = absl::Hours(1);
  int ticks = 0;
  // A storm: a tick of 5 ms whenever it may begin, for a minute.
  for (const absl::Duration end = t + absl::Minutes(1); t < end;
       t = std::max(t + absl::Milliseconds(20), pace.NextAfter(t))) {
    if (++ticks == 10) CHECK(t == absl::Hours(1) + 9 * absl::Milliseconds(20));
    pace.Spend(t, absl::Milliseconds(5));
  }
  CHECK(ticks == Approx(140).margin(2));  // 60 s and 10 s of credit, at 0.5 s each
  // After some quiet the next ones are at once again.
  t += absl::Seconds(30);
  CHECK(pace.NextAfter(t) <= t);
  pace.Spend(t, absl::Milliseconds(5));
  CHECK(pace.NextAfter(t) <= t);
}

TEST_CASE("a tick that events ask for waits no longer than it may, whatever the ticks before have cost") {
  const absl::Duration cost = GENERATE(absl::Milliseconds(1), absl::Milliseconds(40), absl::Seconds(1));
  EventPace pace(absl::Milliseconds(800), /*least=*/absl::Milliseconds(10));
  absl::Duration t = absl::Hours(1);
  int ticks = 0;
  for (const absl::Duration end = t + absl::Minutes(1); t < end; ++ticks) {
    pace.Spend(t, cost);
    const absl::Duration next = std::max(t + absl::Milliseconds(20), pace.NextAfter(t));
    REQUIRE(next <= t + absl::Milliseconds(800));
    t = next;
  }
  INFO(cost);
  CHECK(ticks <= 60 / 0.8 + 12);  // some ten at once, however cheap
  // After the storm the next one is soon at once again.
  t += std::max(cost, absl::Milliseconds(10)) * 100;
  CHECK(pace.NextAfter(t) <= t);
}

TEST_CASE("a stretch is noted, with its reason") {
  SelfThrottle throttle(absl::Seconds(1));
  for (int i = 0; i < 6; ++i) static_cast<void>(throttle.Adjust(absl::Milliseconds(i), {}));
  // CPU time "elsewhere" that shrinks by 2 s looks like 2 s of our own: 20 % of a core.
  const auto note = throttle.Adjust(absl::Seconds(10), -absl::Seconds(2));
  REQUIRE(note.has_value());
  REQUIRE(note->Is<Note>());
  CHECK(note->index == -1);
  CHECK(note->t == absl::Seconds(10));
  CHECK(note->As<Note>()->text.find("stretched from 1s to 2s") != std::string::npos);
  CHECK(throttle.interval() == absl::Seconds(2));
  const auto back = throttle.Adjust(absl::Seconds(1000), -absl::Seconds(2));
  REQUIRE(back.has_value());
  CHECK(back->As<Note>()->text.find("shortened from 2s to 1s") != std::string::npos);
  CHECK(throttle.interval() == absl::Seconds(1));
}

}  // namespace cowprof
