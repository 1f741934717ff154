// Tells whether a figure rises, and how fast: robust slopes of a series that ends now. A step, a sawtooth and noise are
// not a rise. Also keeps series short. Pure.
#ifndef COWPROF_MODEL_ESTIMATE_ROBUST_SLOPE_H_
#define COWPROF_MODEL_ESTIMATE_ROBUST_SLOPE_H_

#include <vector>

namespace cowprof {

struct Point {
  double t = 0;  // seconds
  double value = 0;
};
using Series = std::vector<Point>;

// Appends a point. A full series loses one of its older points, so that it is dense at its end and reaches back evenly
// to its beginning.
void AppendPoint(const Point& point, Series* series);

// Change of the value per second. All 0: no rise that can be told.
struct Slope {
  double low = 0, best = 0, high = 0;
  double seconds = 0;  // examined, up to the end of the series
};

// Returns how fast the series rises now. `floor`: a smaller rise within the time examined does not count.
Slope SlopeOf(const Series& series, double floor);

// Returns for how many seconds the series has risen, up to its end, at half of `slope` or more on average. A step
// before a stretch that did not rise does not count.
double RisenFor(const Series& series, const Slope& slope);

// Interpolates the value at time t; outside the series, returns its first or last value.
double ValueAt(const Series& series, double t);

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_ROBUST_SLOPE_H_
