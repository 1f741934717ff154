// Tells whether a figure grows outside the workers: it has what they own left out, and is compared with what it was
// during earlier generations of them. What rises in each generation and is given back is not growth. Pure.
#ifndef COWPROF_MODEL_ESTIMATE_OUTSIDE_GROWTH_H_
#define COWPROF_MODEL_ESTIMATE_OUTSIDE_GROWTH_H_

#include <cstddef>

#include "model/estimate/robust_slope.h"

namespace cowprof {

class OutsideGrowth {
 public:
  // `started`: what processes took by starting, which `point` leaves out: it is in use, but no growth. Skip moments at
  // which workers or large programs end: their memory is given back a little earlier or later.
  void Add(const Point& point, double started);
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
  // With what processes took by starting. Whether it is more than ever during earlier generations.
  double latest() const { return latest_; }
  bool above_earlier() const { return !lows_.empty() && latest_ > earlier_most_ + Same(); }

 private:
  bool Kept() const;
  double Same() const;  // above an earlier peak by less is the same again

  Series all_;
  Series lows_;  // of the latest generations that have ended
  // Of the current generation.
  size_t points_ = 0;
  Point low_;
  double peak_ = 0, most_ = 0, latest_ = 0;  // the latter two as latest()
  // Of those that have ended: the most; of the latest one, its own, and whether it kept what the one before it took.
  double earlier_peak_ = 0, earlier_most_ = 0, last_peak_ = 0;
  bool last_kept_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_OUTSIDE_GROWTH_H_
