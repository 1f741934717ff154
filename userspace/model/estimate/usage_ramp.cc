#include "model/estimate/usage_ramp.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cowprof {
namespace {

constexpr size_t kMostPoints = 512;  // then every other one is dropped
constexpr absl::Duration kStandstill = absl::Seconds(3), kLately = absl::Seconds(1), kJustNow = absl::Milliseconds(300);
// A shorter climb has no rate yet, or does not show whether it levels off: the looks are too coarse.
constexpr absl::Duration kLeastLength = absl::Milliseconds(60), kLeastToLevelOff = absl::Milliseconds(400);
// Throughput on a busy machine varies by this factor without any reason.
constexpr double kSlowedDown = 1.4;

}  // namespace

double UsageRamp::MeanRate(absl::Duration from, absl::Duration to) const {
  const auto at = [&](absl::Duration t) {
    const auto after =
        std::lower_bound(points_.begin(), points_.end(), t, [](const Point& p, auto t) { return p.t < t; });
    return after == points_.end() ? points_.back() : *after;
  };
  const Point first = at(from), last = at(to);
  return last.t > first.t ? (last.value - first.value) / absl::ToDoubleSeconds(last.t - first.t) : 0;
}

void UsageRamp::Add(absl::Duration t, uint64_t value) {
  const Point point = {t, static_cast<double>(value)};
  if (points_.empty() || point.value <= base() || point.value < peak_ - (peak_ - base()) / 4) {
    if (!points_.empty() && point.value < peak_) earlier_peak_ = std::max(earlier_peak_, peak_);
    points_ = {point};
    peak_ = point.value;
    return;
  }
  if (points_.size() == kMostPoints) {
    for (size_t i = 1; 2 * i < kMostPoints; ++i) points_[i] = points_[2 * i];
    points_.resize(kMostPoints / 2);
  }
  points_.push_back(point);
  peak_ = std::max(peak_, point.value);
  const absl::Duration last_part = std::max(kStandstill, length() / 4);
  if (length() > last_part && MeanRate(t - last_part, t) < MeanRate(began(), t) / 4) points_ = {point};
}

void UsageRamp::StartAt(absl::Duration t) {
  const auto first = std::find_if(points_.begin(), points_.end(), [&](const Point& point) { return point.t >= t; });
  if (first == points_.end()) return;
  points_.erase(points_.begin(), first);
}

double UsageRamp::rate() const {
  if (points_.empty() || length() < kLeastLength) return 0;
  const absl::Duration end = points_.back().t;
  return MeanRate(end - std::max(kLately, length() / 4), end);
}

// With much room the looks are seconds apart. A tick comes just after the look that asked for it: too short a time.
bool UsageRamp::goes_on() const {
  if (points_.empty()) return false;
  const absl::Duration end = points_.back().t;
  const auto before =
      std::find_if(points_.rbegin(), points_.rend(), [&](const Point& point) { return end - point.t >= kLeastLength; });
  const absl::Duration from = end - kJustNow;
  return MeanRate(before == points_.rend() ? from : std::min(from, before->t), end) >= rate() / 4;
}

// Fits an exponential to two rates: of the first three quarters of the climb and of the last one.
double UsageRamp::still_to_come() const {
  const double forever = std::numeric_limits<double>::infinity();
  if (points_.empty() || length() < kLeastToLevelOff) return forever;
  const absl::Duration end = points_.back().t;
  const double before = MeanRate(began(), end - length() / 4), lately = MeanRate(end - length() / 4, end);
  if (lately * kSlowedDown >= before) return forever;
  if (lately <= 0) return 0;
  const double seconds = absl::ToDoubleSeconds(length());
  const double tau = seconds / 2 / std::log(before / lately);  // the middles of both parts are half the climb apart
  return lately * std::exp(-seconds / 8 / tau) * tau;
}

}  // namespace cowprof
