// A curve of bounded length that keeps each peak, and the moment of it.
#include "model/judge/memory_curve.h"

#include <catch2/catch.hpp>

#include "builders.h"
#include "model/judge/run.h"
#include "random_recording.h"

namespace cowprof {
namespace {

MemoryCurve::Point PeakOf(const MemoryCurve& curve) {
  MemoryCurve::Point peak;
  for (const MemoryCurve::Point& point : curve.points()) {
    if (point.bytes.value_or(0) > peak.bytes.value_or(0)) peak = point;
  }
  return peak;
}

}  // namespace

TEST_CASE("a peak of one sample stays, however long the recording is") {
  for (const int samples : {1, 511, 512, 513, 100'000}) {
    MemoryCurve curve;
    for (int i = 0; i < samples; ++i) {
      const bool peak = i == samples / 3;
      curve.Add({absl::Seconds(i), i % 7 == 3 && !peak ? Count() : Count(peak ? 1'000'000 : i % 1000)});
    }
    CHECK(curve.points().size() <= MemoryCurve::kMost);
    CHECK(curve.points().size() >= std::min<size_t>(samples, MemoryCurve::kMost / 2));
    CHECK(PeakOf(curve).bytes == 1'000'000);
    CHECK(PeakOf(curve).t == absl::Seconds(samples / 3));
    for (size_t i = 1; i < curve.points().size(); ++i) CHECK(curve.points()[i - 1].t < curve.points()[i].t);
  }
}

TEST_CASE("an unknown figure gives no point") {
  MemoryCurve curve;
  for (int i = 0; i < 2000; ++i) curve.Add({absl::Seconds(i), i < 1000 ? Count() : Count(5)});
  CHECK_FALSE(curve.points().front().bytes);
  CHECK(curve.points().back().bytes == 5);
}

TEST_CASE("the highest point is the peak of the workers") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    RandomRecording recording(seed);
    Run run = {.model = {.info = recording.Info()}};
    MemoryCurve curve;
    for (int i = 0; i < 40; ++i) {
      Append(recording.Next(), &run);
      curve.Add(run.model);
    }
    CHECK(PeakOf(curve).bytes.value_or(0) == run.model.workers_peak.bytes);
  }
}

}  // namespace cowprof
