// Which curves go on growing, and that a long recording keeps the least of each stretch in a few points.
#include "model/estimate/memory_series.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

namespace cowprof {
namespace {

// One sample a second of new memory in pages, as a function of the share of the time that has passed.
MemorySeries Curve(const std::function<double(double)>& pages, int samples = 40) {
  MemorySeries series;
  for (int i = 0; i < samples; ++i) {
    const double part = i / (samples - 1.0);
    series.Add({.t = absl::Seconds(i), .new_pages = static_cast<uint64_t>(std::max(pages(part), 0.0))});
  }
  return series;
}

bool Grows(const std::function<double(double)>& pages, int samples = 40) {
  return SustainedRise(Curve(pages, samples), /*ended=*/false).has_value();
}

}  // namespace

TEST_CASE("memory history: what grows on and on") {
  const auto straight = SustainedRise(Curve([](double t) { return 500 + 4000 * t; }), false);
  REQUIRE(straight);
  // From the second quarter to the last part of six: 5/6 of 3/4.
  CHECK(straight->pages == Approx(4000 * 0.75 * 5 / 6).epsilon(0.05));
  CHECK(absl::ToDoubleSeconds(straight->duration) == Approx(39 * 0.75 * 5 / 6).margin(1));
  CHECK(Grows([](double t) { return 4000 * t * t; }));
  CHECK(Grows([](double t) { return 4000 * t + 300 * std::sin(100 * t); }));
  CHECK(Grows([](double t) { return t < 0.1 ? 50'000 * t : 5000 + 4000 * t; }));
  // It waited for a while, or grows by leaps.
  CHECK(Grows([](double t) { return 4000 * (t < 0.5 ? t : t < 0.6 ? 0.5 : t - 0.1); }));
  CHECK(Grows([](double t) { return 1000 * std::floor(20 * t); }));
}

TEST_CASE("memory history: what does not") {
  CHECK_FALSE(Grows([](double) { return 5000; }));
  CHECK_FALSE(Grows([](double t) { return std::min(50'000 * t, 12'800.0); }));
  CHECK_FALSE(Grows([](double t) { return 5000 - 4000 * t; }));
  CHECK_FALSE(Grows([](double t) { return 1000 * std::fmod(20 * t, 1); }));
  CHECK_FALSE(Grows([](double t) { return 9000 * std::fmod(3.5 * t, 1); }));
  // Grown all the time, and given back at last.
  CHECK_FALSE(Grows([](double t) { return t < 0.95 ? 4000 * t : 0; }));
  // On the way to a plateau, from 63 % of it on.
  const double time_constants = GENERATE(1, 1.5, 2, 3, 5, 10);
  CHECK_FALSE(Grows([&](double t) { return 20'000 * (1 - std::exp(-time_constants * t)); }));
}

TEST_CASE("memory history: too little is known") {
  CHECK_FALSE(SustainedRise({}, false));
  CHECK_FALSE(SustainedRise({}, true));
  const auto straight = [](double t) { return 40'000 * t; };
  for (int samples = 2; samples < 7; ++samples) CHECK_FALSE(Grows(straight, samples));
  CHECK(Grows(straight, 10));
}

TEST_CASE("memory history: what rose at the end") {
  const auto rose = [](const std::function<double(double)>& pages, bool ended = false) {
    return RoseAtTheEnd(Curve(pages, 10), ended);
  };
  CHECK(rose([](double t) { return 40'000 * t; }));
  CHECK(rose([](double t) { return t < 0.9 ? 40'000 * t : 0; }, /*ended=*/true));
  CHECK_FALSE(rose([](double t) { return t < 0.9 ? 40'000 * t : 0; }));
  CHECK_FALSE(rose([](double t) { return t < 0.5 ? 40'000 * t : 20'000; }));
  CHECK_FALSE(rose([](double t) { return 20'000 + 1000 * t; }));
  CHECK_FALSE(rose([](double) { return 0; }));
  CHECK_FALSE(RoseAtTheEnd({}, true));
}

TEST_CASE("memory history: samples need not come at equal intervals") {
  MemorySeries leak, fills;
  for (const double t : {0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 1.7, 2.3, 3.1, 4.1, 5.1, 6.1, 7.1, 8.1, 8.3, 9.3, 9.9}) {
    leak.Add({.t = absl::Seconds(t), .new_pages = static_cast<uint64_t>(1280 * t)});
    fills.Add({.t = absl::Seconds(t), .new_pages = static_cast<uint64_t>(12'800 * (1 - std::exp(-t / 4)))});
  }
  CHECK(SustainedRise(leak, false));
  CHECK_FALSE(SustainedRise(fills, false));
}

TEST_CASE("memory history: what is freed while a process ends does not count, what was freed before does") {
  const auto freed_at_last = [](double t) { return t < 0.96 ? 10'000 * t : 2000 * (1 - t); };
  CHECK_FALSE(SustainedRise(Curve(freed_at_last), /*ended=*/false));
  CHECK(SustainedRise(Curve(freed_at_last), /*ended=*/true));
  const auto ends_slowly = [](double t) { return t < 0.9 ? 10'000 * t : t < 0.95 ? 2000 : 1500; };
  CHECK(SustainedRise(Curve(ends_slowly), /*ended=*/true));
  const auto sawtooth = [](double t) { return 1000 * std::fmod(7.3 * t, 1); };
  CHECK_FALSE(SustainedRise(Curve(sawtooth), /*ended=*/true));
}

TEST_CASE("memory history: a recording of any length is a few points, each the least of its stretch") {
  const int samples = GENERATE(63, 64, 65, 1000, 100'000);
  const auto spikes = [n = 0](double) mutable { return n++ % 3 == 0 ? 100 : 9000; };
  const MemorySeries series = Curve(spikes, samples);
  CHECK(series.stretches.size() <= MemorySeries::kMost);
  CHECK(series.stretches.size() >= std::min<size_t>(samples, MemorySeries::kMost / 2));
  CHECK(series.stretches.front().t == absl::ZeroDuration());
  if (samples >= 1000) {
    for (size_t i = 0; i + 1 < series.stretches.size(); ++i) CHECK(series.stretches[i].new_pages == 100);
  }
  CHECK(Grows([](double t) { return 1'000'000 * t; }, samples));
}

}  // namespace cowprof
