// Tells whether a figure grows outside the workers: it has what they own left out, and is compared with what it was
// during earlier generations of them. What rises in each generation and is given back is not growth. Pure.
#ifndef COWPROF_MODEL_ESTIMATE_OUTSIDE_GROWTH_H_
#define COWPROF_MODEL_ESTIMATE_OUTSIDE_GROWTH_H_

#include <cstddef>

#include "model/estimate/robust_slope.h"

namespace cowprof {

class OutsideGrowth {
 public:
  // Skip moments at which workers end: their memory is given back a little earlier or later.
  void Add(const Point& point);
  void EndGeneration();

  struct Growth {
    Slope slope;               // all 0: none that can be told
    double risen_seconds = 0;  // for which it has had about that slope
  };
  // `floor`: as of SlopeOf.
  Growth Of(double floor) const;
  // Whether there are points of earlier generations, and one of the last 10 s before `t` to compare with them: not
  // where workers end all the time.
  bool tells(double t) const { return !lows_.empty() && t - all_.back().t <= 10; }
  double latest() const { return all_.empty() ? 0 : all_.back().value; }
  bool above_earlier() const;  // the latest, beyond all that it was during earlier generations

 private:
  bool Kept() const;

  Series all_;
  Series lows_;  // of the latest generations that have ended
  // Of the current generation.
  size_t points_ = 0;
  Point low_;
  double peak_ = 0;
  // Of those that have ended: the most; of the latest one, its own, and whether it kept what the one before it took.
  double earlier_peak_ = 0, last_peak_ = 0;
  bool last_kept_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_OUTSIDE_GROWTH_H_
