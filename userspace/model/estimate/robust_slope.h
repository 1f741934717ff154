// Does a figure rise, and how fast: robust slopes of a series that ends now. A step, a sawtooth and noise are no rise.
// Pure; called by forecast.cc. Keeps series short, too: forecast_inputs.h appends to them.
#ifndef COWPROF_MODEL_ESTIMATE_ROBUST_SLOPE_H_
#define COWPROF_MODEL_ESTIMATE_ROBUST_SLOPE_H_

#include <vector>

namespace cowprof {

struct Point {
  double t = 0;  // seconds
  double value = 0;
};
using Series = std::vector<Point>;

// Appends; a series that is full loses one of its older points, so that it is dense at its end and reaches back evenly
// to its beginning.
void AppendPoint(const Point& point, Series* series);

// Of the value a second. All 0: it does not rise as far as can be told. `high` alone above 0: it may.
struct Slope {
  double low = 0, best = 0, high = 0;
};

// How fast the series rises now. `floor`: a rise by less than this within the time that is looked at is none.
Slope SlopeOf(const Series& series, double floor);

// What the series had at time t, between its points; its first or last value outside.
double ValueAt(const Series& series, double t);

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_ROBUST_SLOPE_H_
