// What counts as a rise: planted ramps are found with their slope, and steps, noise, sawteeth and odd series are none.
#include "model/estimate/robust_slope.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace cowprof {
namespace {

constexpr double kFloor = 5;

Series Made(int points, const std::function<double(double)>& value, double step = 1) {
  Series series;
  for (int i = 0; i < points; ++i) AppendPoint({i * step, value(i * step)}, &series);
  return series;
}

}  // namespace

TEST_CASE("a ramp has its slope, from the third point on and however long it lasts") {
  for (const int points : {3, 4, 8, 20, 500}) {
    const Slope slope = SlopeOf(Made(points, [](double t) { return 100 + 10 * t; }), kFloor);
    INFO(points);
    CHECK(slope.best == Approx(10));
    CHECK(slope.low <= slope.best);
    CHECK(slope.high >= slope.best);
  }
}

TEST_CASE("two points give no slope, and a few only where they rise by much") {
  CHECK(SlopeOf(Made(2, [](double t) { return 1000 * t; }), kFloor).best == 0);
  CHECK(SlopeOf(Made(3, [](double t) { return 9 * t; }), kFloor).best == 0);
  CHECK(SlopeOf(Made(3, [](double t) { return 11 * t; }), kFloor).best == Approx(11));
}

TEST_CASE("how long a rise has lasted") {
  const auto from = [](double begin, double end) {
    return [=](double t) { return 100 + 10 * std::clamp(t - begin, 0.0, end - begin); };
  };
  const Slope slope = {.low = 10, .best = 10, .high = 10, .seconds = 3};
  CHECK(RisenFor(Made(60, from(0, 100)), slope) == Approx(59));
  // On average it has half the pace over twice as long.
  CHECK(RisenFor(Made(60, from(49, 100)), slope) == Approx(20));
  CHECK(RisenFor(Made(60, [](double) { return 100; }), slope) == 0);
  CHECK(RisenFor({}, slope) == 0);
}

TEST_CASE("an earlier step does not make a rise look older, nor do noise and stairs make it look younger") {
  const auto risen = [](const Series& series, double floor = kFloor) {
    return RisenFor(series, SlopeOf(series, floor));
  };
  for (const double ramp : {16.0, 60.0}) {
    INFO(ramp);
    const auto step_and_ramp = [](double t) { return (t < 600 ? 0 : 4096) + 5 * std::max(t - 1000, 0.0); };
    const double seconds = risen(Made(1001 + static_cast<int>(ramp), step_and_ramp));
    CHECK(seconds >= 0.9 * ramp);
    CHECK(seconds <= 2.1 * ramp);
  }
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(-10, 10);
  CHECK(risen(Made(2000, [&](double t) { return 0.1 * t + noise(random); }), 30) >= 1900);
  CHECK(risen(Made(1000, [](double t) { return 40 * std::floor(t / 20); })) >= 900);
}

TEST_CASE("a ramp that began a moment ago, after hours of nothing, is seen in its first points") {
  Series series = Made(4000, [](double) { return 1000; });
  for (int i = 0; i < 4; ++i) AppendPoint({4000.0 + i, 1000 + 50.0 * (i + 1)}, &series);
  CHECK(SlopeOf(series, kFloor).best == Approx(50).epsilon(0.2));
}

TEST_CASE("a slow leak is seen over a long time, through noise that hides it in a short one") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(-10, 10);
  const Series series = Made(2000, [&](double t) { return 0.1 * t + noise(random); });
  CHECK(SlopeOf(series, 30).best == Approx(0.1).epsilon(0.3));
}

TEST_CASE("a rise that is over is none") {
  const auto loaded = [](double t) { return t < 4 ? 100 * t : 400; };
  for (const int points : {10, 14, 20, 100}) {
    INFO(points);
    CHECK(SlopeOf(Made(points, loaded), kFloor).best == 0);
  }
}

TEST_CASE("noise, a fall and a level line are no rise") {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> noise(-100, 100);
  int rises = 0;
  for (int run = 0; run < 200; ++run)
    rises += SlopeOf(Made(40, [&](double) { return 1000 + noise(random); }), 50).best > 0;
  CHECK(rises <= 10);  // four points in a row that rise by chance
  CHECK(SlopeOf(Made(40, [](double t) { return -t; }), 0.01).best == 0);
  CHECK(SlopeOf(Made(40, [](double) { return 7; }), 0).best == 0);
}

TEST_CASE("a series stays short, reaches back to its beginning and takes no odd point") {
  Series series = Made(100'000, [](double t) { return t; });
  CHECK(series.size() <= 128);
  CHECK(series.front().t == 0);
  CHECK(series.back().t == 99'999);
  const size_t size = series.size();
  AppendPoint({99'999, 1}, &series);  // not later
  AppendPoint({1e6, std::numeric_limits<double>::quiet_NaN()}, &series);
  AppendPoint({std::numeric_limits<double>::infinity(), 1}, &series);
  CHECK(series.size() == size);
  CHECK(ValueAt(series, -5) == 0);
  CHECK(ValueAt(series, 1e9) == 99'999);
  CHECK(ValueAt(series, 99'998.5) == Approx(99'998.5));
  CHECK(ValueAt({}, 1) == 0);
}

}  // namespace cowprof
