// How many places there are, and how many of them will be hit, from how often those seen so far were hit: the figures
// of capture and recapture. Called by working_set_estimator.cc, whose places are groups of pages and whose trials are
// their pages in each worker. Pure; knows nothing of pages.
#ifndef COWPROF_MODEL_ESTIMATE_UNSEEN_ESTIMATOR_H_
#define COWPROF_MODEL_ESTIMATE_UNSEEN_ESTIMATOR_H_

#include <array>
#include <vector>

namespace cowprof {

// Places of which at[j] were hit in j of their `trials` trials.
struct Caught {
  std::vector<double> at;
  int trials = 0;

  double Of(int hits) const { return hits < static_cast<int>(at.size()) ? at[hits] : 0; }
  double Seen() const;
  // Places that were not hit yet, if all are alike: Chao 1987, "Estimating the population size for capture-recapture
  // data with unequal catchability", for a known number of trials.
  double Unseen() const;
};

// Places that are hit at different rates, by the most likely mixture of some (Laird 1978), fitted by expectation and
// maximisation in some hundred steps: to the end of it rates would be fewer than they are. Time is counted in what has
// passed so far, and each trial's share of it is the same; what comes later is as Good and Toulmin (1956) foretell it.
// That needs no guess at places which are hit so rarely that their number can't be known: they don't matter before
// long.
class Rates {
 public:
  explicit Rates(const Caught& caught);  // of which something was seen

  // In how many places a trial will have hit by `time`; now is 1.
  double HitAfter(double time) const;
  // How often the usual place that a trial has hit was hit by it: the geometric mean.
  double Usual() const;

 private:
  static constexpr int kRates = 48;
  std::array<double, kRates> rate_, copy_sites_;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_UNSEEN_ESTIMATOR_H_
