// What rises is growth if what rose during the last generation was kept, or if it is more than ever during an earlier
// one. Otherwise growth shows only in the lows of the generations, as when a program keeps something after each epoch.
#include "model/estimate/outside_growth.h"

#include <algorithm>

namespace cowprof {
namespace {

// Above the earlier peak by less: the same again. Bytes; of the last generation's rise.
constexpr double kNoise = 4 << 20, kSameRise = 0.1;
constexpr double kKept = 0.5;    // of the last generation's rise
constexpr size_t kSettled = 3;   // points: by then a generation has given back what it does not keep
constexpr size_t kMostLows = 5;  // so few that each must be above the one before (SlopeOf)

}  // namespace

void OutsideGrowth::Add(const Point& point, double started) {
  AppendPoint(point, &all_);
  if (points_ == 0 || point.value < low_.value) low_ = point;
  peak_ = points_ == 0 ? point.value : std::max(peak_, point.value);
  latest_ = point.value + started;
  most_ = points_ == 0 ? latest_ : std::max(most_, latest_);
  ++points_;
}

void OutsideGrowth::EndGeneration() {
  if (points_ == 0) return;
  last_kept_ = Kept();
  last_peak_ = peak_;
  earlier_peak_ = lows_.empty() ? peak_ : std::max(earlier_peak_, peak_);
  earlier_most_ = lows_.empty() ? most_ : std::max(earlier_most_, most_);
  AppendPoint(low_, &lows_);
  if (lows_.size() > kMostLows) lows_.erase(lows_.begin());
  points_ = 0;
}

bool OutsideGrowth::Kept() const {
  if (lows_.empty() || points_ < kSettled) return last_kept_;
  return low_.value > lows_.back().value + kKept * (last_peak_ - lows_.back().value);
}

double OutsideGrowth::Same() const { return std::max(kNoise, kSameRise * (last_peak_ - lows_.back().value)); }

OutsideGrowth::Growth OutsideGrowth::Of(double floor) const {
  if (lows_.empty()) return {};
  const auto growth = [floor](const Series& series) {
    const Slope slope = SlopeOf(series, floor);
    return Growth{slope, RisenFor(series, slope)};
  };
  if (Kept() || all_.back().value > earlier_peak_ + Same()) {
    if (const Growth now = growth(all_); now.slope.best > 0) return now;
  }
  return growth(lows_);
}

}  // namespace cowprof
