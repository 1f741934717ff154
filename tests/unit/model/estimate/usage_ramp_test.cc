// What usage_ramp.cc makes of figures whose rate, end and shape are planted: ramps, plateaus, exponentials, teeth.
#include "model/estimate/usage_ramp.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

namespace cowprof {
namespace {

constexpr double kMb = 1 << 20;

// Looks ten times a second from `from` to `to`, both in seconds.
void Follow(double from, double to, const std::function<double(double)>& mb_at, UsageRamp* ramp) {
  for (double t = from; t <= to + 1e-9; t += 0.1) ramp->Add(absl::Seconds(t), static_cast<uint64_t>(mb_at(t) * kMb));
}

}  // namespace

TEST_CASE("a steady ramp has its rate, whatever its length, and does not level off") {
  const double rate = GENERATE(1.0, 10.0, 500.0), seconds = GENERATE(0.5, 3.0, 60.0, 4000.0);
  UsageRamp ramp;
  Follow(
      0, seconds, [&](double t) { return 100 + rate * t; }, &ramp);
  CHECK(ramp.rate() / kMb == Approx(rate).epsilon(0.02));
  CHECK(ramp.gained() / kMb == Approx(rate * seconds).epsilon(0.02));
  CHECK(ramp.base() / kMb == Approx(100));
  CHECK(std::isinf(ramp.still_to_come()));
  CHECK(ramp.earlier_peak() == 0);
}

TEST_CASE("an exponential tells what is still to come") {
  const double tau = GENERATE(2.0, 20.0), part = GENERATE(0.6, 0.8, 0.9);
  UsageRamp ramp;
  const auto shape = [&](double t) { return 50 + 400 * (1 - std::exp(-t / tau)); };
  const double now = -tau * std::log(1 - part);
  Follow(0, now, shape, &ramp);
  CHECK(ramp.still_to_come() / kMb == Approx(450 - shape(now)).epsilon(0.25));
}

TEST_CASE("a standstill ends a climb and is no earlier peak") {
  UsageRamp ramp;
  Follow(
      0, 2, [](double t) { return 300 * t; }, &ramp);
  Follow(
      2.1, 6, [](double) { return 600; }, &ramp);
  CHECK(ramp.gained() == 0);
  CHECK(ramp.rate() == 0);
  CHECK(ramp.base() / kMb == Approx(600));
  CHECK(ramp.earlier_peak() == 0);
}

TEST_CASE("growth in steps of a second is one climb") {
  UsageRamp ramp;
  Follow(
      0, 20, [](double t) { return 50 * std::floor(t + 1e-6); }, &ramp);
  CHECK(ramp.base() == 0);
  CHECK(ramp.rate() / kMb == Approx(50).epsilon(0.25));
}

TEST_CASE("memory that is given back begins a new climb and leaves its peak behind") {
  UsageRamp ramp;
  Follow(
      0, 4, [](double t) { return 100 + 100 * t; }, &ramp);
  Follow(
      4.1, 6, [](double t) { return 100 + 100 * (t - 4); }, &ramp);
  CHECK(ramp.earlier_peak() / kMb == Approx(500));
  CHECK(ramp.base() / kMb == Approx(110));
  CHECK(ramp.gained() / kMb == Approx(190));
  // A small dent is none of that.
  ramp.Add(absl::Seconds(6.1), static_cast<uint64_t>(280 * kMb));
  CHECK(ramp.base() / kMb == Approx(110));
}

TEST_CASE("what was gained before somebody came is not his") {
  UsageRamp ramp;
  Follow(
      0, 2, [](double t) { return 200 * t; }, &ramp);
  ramp.StartAt(absl::Seconds(1.05));
  CHECK(ramp.base() / kMb == Approx(220));
  ramp.StartAt(absl::Seconds(99));
  CHECK(ramp.base() / kMb == Approx(220));
}

TEST_CASE("a climb goes on, or has stopped, however rare the looks are") {
  const double gap = GENERATE(0.125, 0.5, 1.0, 2.0), end = 50;
  UsageRamp ramp;
  const auto look = [&](double t, double mb) { ramp.Add(absl::Seconds(t), static_cast<uint64_t>(mb * kMb)); };
  for (double t = 0; t <= end; t += gap) look(t, 150 * t);
  CHECK(ramp.goes_on());
  // The tick that this look asked for sees nothing new yet.
  look(end + 0.005, 150 * end);
  CHECK(ramp.goes_on());
  for (double t = 0; t < 0.4; t += gap) look(end + t + gap, 150 * end);
  CHECK(ramp.rate() > 0);
  CHECK_FALSE(ramp.goes_on());
}

TEST_CASE("one look is no rate") {
  UsageRamp ramp;
  CHECK(ramp.rate() == 0);
  CHECK(ramp.gained() == 0);
  ramp.Add(absl::ZeroDuration(), 5);
  CHECK(ramp.rate() == 0);
  ramp.Add(absl::ZeroDuration(), 50);
  CHECK(ramp.rate() == 0);
  CHECK(std::isinf(ramp.still_to_come()));
}

}  // namespace cowprof
