// When rounds of sweeps begin, and what the sweeps of a tick may cost.
#include "source/sweep_pace.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

constexpr SweepAllowance kAllowance = {
    .interval = absl::Seconds(5), .share = 0.03, .long_share = 0.01, .last = absl::Milliseconds(100)};

TEST_CASE("sweep pace: a round begins each interval, and at once where it must") {
  SweepPace pace(kAllowance);
  CHECK(pace.BeginRound(absl::Seconds(0), absl::ZeroDuration()));
  CHECK_FALSE(pace.BeginRound(absl::Seconds(4), absl::ZeroDuration()));
  CHECK(pace.BeginRound(absl::Seconds(4), absl::ZeroDuration(), /*now=*/true));
  CHECK_FALSE(pace.BeginRound(absl::Seconds(8), absl::ZeroDuration()));
  CHECK(pace.BeginRound(absl::Seconds(9), absl::ZeroDuration()));
}

TEST_CASE("sweep pace: a costly round makes the next one wait, until its share of the time has passed") {
  SweepPace pace(kAllowance);
  CHECK(pace.BeginRound(absl::Seconds(0), absl::ZeroDuration()));
  CHECK(pace.BeginRound(absl::Seconds(5), absl::Milliseconds(200)));  // 200 ms are 1 % of 20 s
  CHECK_FALSE(pace.BeginRound(absl::Seconds(24), absl::Milliseconds(210)));
  CHECK(pace.BeginRound(absl::Seconds(25), absl::Milliseconds(210)));
  CHECK(pace.BeginRound(absl::Seconds(30), absl::Milliseconds(210)));  // 10 ms are 1 % of 1 s
}

TEST_CASE("sweep pace: a tick has its share, more at the beginning, and a fixed budget at the end") {
  const SweepPace pace(kAllowance);
  const auto budget = [&](absl::Duration interval, absl::Duration cost) { return pace.Budget(interval, cost, false); };
  CHECK(budget(absl::Seconds(1), absl::ZeroDuration()) == absl::Milliseconds(50));
  CHECK(budget(absl::Seconds(1), absl::Milliseconds(160)) == absl::Milliseconds(40));
  CHECK(budget(absl::Seconds(1), absl::Seconds(1)) == absl::Milliseconds(30));
  CHECK(budget(absl::Seconds(2), absl::ZeroDuration()) == absl::Milliseconds(60));
  CHECK(pace.Budget(absl::Seconds(1), absl::ZeroDuration(), /*last=*/true) == absl::Milliseconds(100));
  CHECK(SweepPace::Longest(/*last=*/false) == absl::InfiniteDuration());
  CHECK(SweepPace::Longest(/*last=*/true) == absl::Seconds(1));
}

}  // namespace
}  // namespace cowprof
