// One note for each time that the wall clock is set, none for a clock that is merely corrected.
#include "recorder/clock_jump.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1000);

}  // namespace

TEST_CASE("a wall clock that is set makes one note each time, with the direction and by how much") {
  ClockJump clock;
  CHECK(!clock.Look(absl::Seconds(0), kStart));
  CHECK(!clock.Look(absl::Seconds(1), kStart));
  const std::optional<Event> forward = clock.Look(absl::Seconds(2), kStart + absl::Hours(1));
  REQUIRE(forward);
  CHECK(forward->t == absl::Seconds(2));
  CHECK(forward->As<Note>()->text.find("forward by 1 h 00 min") != std::string::npos);
  CHECK(!clock.Look(absl::Seconds(3), kStart + absl::Hours(1)));
  const std::optional<Event> back = clock.Look(absl::Seconds(4), kStart);
  REQUIRE(back);
  CHECK(back->As<Note>()->text.find("back by 1 h 00 min") != std::string::npos);
  CHECK(!clock.Look(absl::Seconds(5), kStart));
}

TEST_CASE("a wall clock that NTP slews by 500 ppm makes no note") {
  ClockJump clock;
  for (int second = 0; second < 36'000; second += 10)
    CHECK(!clock.Look(absl::Seconds(second), kStart + absl::Seconds(second) * 0.0005));
}

}  // namespace cowprof
