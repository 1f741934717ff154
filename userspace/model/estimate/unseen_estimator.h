// Capture-recapture: estimates how many places there are, and how many of them will be hit, from how often those seen
// so far were hit. In working_set_estimator.cc the places are groups of pages, and the trials are their pages in each
// worker. Pure; knows nothing of pages.
#ifndef COWPROF_MODEL_ESTIMATE_UNSEEN_ESTIMATOR_H_
#define COWPROF_MODEL_ESTIMATE_UNSEEN_ESTIMATOR_H_

#include <array>
#include <vector>

namespace cowprof {

// at[j]: number of places that were hit in j of their `trials` trials.
struct Caught {
  std::vector<double> at;
  int trials = 0;

  double Of(int hits) const { return hits < static_cast<int>(at.size()) ? at[hits] : 0; }
  double Seen() const;
  // Returns the number of places not hit yet, if all are alike: Chao 1987, "Estimating the population size for
  // capture-recapture data with unequal catchability", for a known number of trials.
  double Unseen() const;
};

// Places that are hit at different rates: the most likely mixture of some rates (Laird 1978), fitted by expectation
// maximisation in a few hundred steps. Run to convergence, it would have fewer rates than there are. Time is measured
// in what has passed so far, of which each trial has the same share; what comes later is predicted as by Good and
// Toulmin (1956). That needs no guess at places that are hit so rarely that their number can't be known: they won't
// matter for a long time.
class Rates {
 public:
  static constexpr int kRates = 48;
  explicit Rates(const Caught& caught);  // must have seen something

  // Returns how many places a trial will have hit by `time`; now is 1.
  double HitAfter(double time) const;
  // Returns how often a trial has hit the usual place among those that it has hit: the geometric mean.
  double Usual() const;

 private:
  std::array<double, kRates> rate_, places_;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_UNSEEN_ESTIMATOR_H_
