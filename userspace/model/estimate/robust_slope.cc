// Theil-Sen slopes: the median over all pairs of points, which up to 29 % of outliers don't move.
#include "model/estimate/robust_slope.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr size_t kLongest = 128, kRecent = 16;
// Shares of pairs that must rise: all of them if there are only the few points that a fast ramp leaves.
constexpr double kMostRise = 0.8, kAllRise = 0.999;
constexpr size_t kFewPoints = 6;

std::vector<double> SortedSlopes(const Series& series) {
  std::vector<double> slopes;
  for (size_t i = 0; i < series.size(); ++i) {
    for (size_t j = i + 1; j < series.size(); ++j) {
      if (series[j].t > series[i].t)
        slopes.push_back((series[j].value - series[i].value) / (series[j].t - series[i].t));
    }
  }
  std::sort(slopes.begin(), slopes.end());
  return slopes;
}

double Quantile(const std::vector<double>& sorted, double part) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(part * (sorted.size() - 1) + 0.5)];
}

// Returns the slope of a whole short series, if it rises from end to end and still rises in its later half.
Slope SlopeOfAll(const Series& series, double floor) {
  const std::vector<double> slopes = SortedSlopes(series);
  if (slopes.empty()) return {};
  const double best = Quantile(slopes, 0.5), elapsed = series.back().t - series.front().t;
  const auto first_rise = std::upper_bound(slopes.begin(), slopes.end(), 0.0);
  const double rising = static_cast<double>(slopes.end() - first_rise) / slopes.size();
  // Two points are a single rise, which may be anything, and a step that took a moment leaves a few more.
  const bool few = series.size() < kFewPoints;
  if (best <= 0 || series.size() < 3 || best * elapsed < (few ? 4 * floor : floor)) return {};
  if (rising < (few ? kAllRise : kMostRise)) return {};
  const Series later(series.begin() + series.size() / 2, series.end());
  const double now = few ? slopes.front() : Quantile(SortedSlopes(later), 0.5);
  if (now < best / 4) return {};
  const double high = std::max({Quantile(slopes, 0.9), now, few ? 1.5 * best : best});
  return {.low = std::max(0.0, std::min(Quantile(slopes, 0.1), now)), .best = best, .high = high, .seconds = elapsed};
}

// Returns the later half of the time that the series covers, as the means of equal parts.
Series LaterHalf(const Series& series) {
  const double end = series.back().t, begin = (series.front().t + end) / 2, part = (end - begin) / kRecent;
  Series means;
  Point sum;
  double points = 0, next = begin + part;
  for (const Point& point : series) {
    if (point.t < begin) continue;
    if (point.t > next && points > 0) {
      means.push_back({sum.t / points, sum.value / points});
      sum = {};
      points = 0;
    }
    while (part > 0 && point.t > next) next += part;
    sum = {sum.t + point.t, sum.value + point.value};
    ++points;
  }
  if (points > 0) means.push_back({sum.t / points, sum.value / points});
  return means;
}

// Returns the slope from the last point before `from` to the first one after `to`.
double OwnSlope(const Series& series, double from, double to) {
  auto first =
      std::upper_bound(series.begin(), series.end(), from, [](double t, const Point& one) { return t < one.t; });
  auto last = std::lower_bound(first, series.end(), to, [](const Point& one, double t) { return one.t < t; });
  if (first != series.begin()) --first;
  if (last != series.end()) ++last;
  Series some;  // the pairs of 128 points take 0.6 ms
  const ptrdiff_t step = (last - first) / static_cast<ptrdiff_t>(kRecent) + 1;
  for (; last - first > step; first += step) some.push_back(*first);
  some.insert(some.end(), {*first, *(last - 1)});
  return Quantile(SortedSlopes(some), 0.5);
}

// Returns the number of the point with the nearest neighbours; the latest points are left out. Four minima are kept
// side by side, since each waits for the one before it.
size_t Closest(const Point* points) {
  constexpr size_t kEnd = kLongest - 2 * kRecent, kTogether = 4;
  const auto gap = [&](size_t i) { return points[i + 1].t - points[i - 1].t; };
  std::array<double, kTogether> least;
  least.fill(gap(1));
  for (size_t first = 1; first < kEnd; first += kTogether) {
    for (size_t k = 0; k < kTogether; ++k) least[k] = std::min(least[k], gap(std::min(first + k, kEnd - 1)));
  }
  const double least_of_all = *std::min_element(least.begin(), least.end());
  size_t i = 1;
  while (gap(i) > least_of_all) ++i;
  return i;
}

}  // namespace

void AppendPoint(const Point& point, Series* series) {
  if (!std::isfinite(point.t) || !std::isfinite(point.value)) return;
  if (!series->empty() && point.t <= series->back().t) return;
  if (series->size() == kLongest) series->erase(series->begin() + Closest(series->data()));
  series->push_back(point);
}

Slope SlopeOf(const Series& series, double floor) {
  if (series.size() < 2) return {};
  // Recent points first: a ramp that has just begun shows only in the last few, a slow one only over the later half.
  for (const size_t points : {kRecent, size_t{4}}) {
    const size_t first = SaturatingSubtract(series.size(), points);
    if (const Slope slope = SlopeOfAll(Series(series.begin() + first, series.end()), floor); slope.best > 0)
      return slope;
  }
  return SlopeOfAll(LaterHalf(series), floor);
}

double RisenFor(const Series& series, const Slope& slope) {
  if (series.empty() || slope.best <= 0 || slope.seconds <= 0) return 0;
  const double half = slope.best / 2, end = series.back().t;
  // Stretches before what was examined, each as long as all after it, as long as they rise by themselves.
  double own = slope.seconds;
  while (own < end - series.front().t && OwnSlope(series, end - 2 * own, end - own) >= half) own *= 2;
  double seconds = 0;
  for (const Point& point : series) {
    const double before = end - point.t;
    if (before > seconds && series.back().value - point.value >= half * before) seconds = before;
  }
  return std::min(seconds, 2 * own);
}

double ValueAt(const Series& series, double t) {
  if (series.empty()) return 0;
  const auto after = std::find_if(series.begin(), series.end(), [t](const Point& point) { return point.t >= t; });
  if (after == series.end()) return series.back().value;
  if (after == series.begin()) return after->value;
  const Point& before = *std::prev(after);
  return before.value + (t - before.t) / (after->t - before.t) * (after->value - before.value);
}

}  // namespace cowprof
