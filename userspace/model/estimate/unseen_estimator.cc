#include "model/estimate/unseen_estimator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace cowprof {
namespace {

constexpr double kLowestRate = 0.002, kHighestRate = 6;  // hits per trial so far
constexpr int kSteps = 300;
constexpr double kImpossible = 1e-200;  // no rate makes so many hits
// A sum waits for each of its additions: so some are beside each other, which wait together. Vectors are an extension
// of gcc and clang.
constexpr size_t kTogether = 16;
using Together = double __attribute__((vector_size(kTogether * sizeof(double))));

template <size_t rates>
struct Hits {
  Together places = {};                     // with j hits: some j
  std::array<Together, rates> likely = {};  // how likely each rate makes j hits, given that a place is hit at all
};

template <size_t rates>
[[gnu::always_inline]] inline void Maximise(const std::vector<Hits<rates>>& seen, std::array<double, rates>* places) {
  for (int step = 0; step < kSteps; ++step) {
    std::array<Together, rates> factors = {};
    for (const Hits<rates>& hits : seen) {
      Together all = {};
      for (size_t i = 0; i < rates; ++i) all += hits.likely[i] * (*places)[i];
      Together of_each = {};
      for (size_t k = 0; k < kTogether; ++k) of_each[k] = all[k] > kImpossible ? hits.places[k] / all[k] : 0;
      for (size_t i = 0; i < rates; ++i) factors[i] += hits.likely[i] * of_each;
    }
    for (size_t i = 0; i < rates; ++i) {
      double factor = 0;
      for (size_t k = 0; k < kTogether; ++k) factor += factors[i][k];
      (*places)[i] *= factor;
    }
  }
}

// A page has hundreds of forecasts, each of which takes all of these steps. Only the vectors are wider: the additions
// and their order are the same, and so is the result.
#ifdef __x86_64__
template <size_t rates>
[[gnu::target("avx2")]] void MaximiseByAvx2(const std::vector<Hits<rates>>& seen, std::array<double, rates>* places) {
  Maximise(seen, places);
}
#endif

// Probability of at least one hit at a place that is hit `rate` times on average.
double Hit(double rate) { return -std::expm1(-rate); }

}  // namespace

double Caught::Seen() const { return at.empty() ? 0 : std::accumulate(at.begin() + 1, at.end(), 0.0); }

double Caught::Unseen() const {
  if (trials < 2) return 0;
  return (trials - 1.0) / trials * Of(1) * std::max(Of(1) - 1, 0.0) / (2 * (Of(2) + 1));
}

Rates::Rates(const Caught& caught) {
  const int trials = caught.trials;
  for (int i = 0; i < kRates; ++i) rate_[i] = kLowestRate * std::pow(kHighestRate / kLowestRate, i / (kRates - 1.0));
  std::vector<Hits<kRates>> seen;
  size_t count = 0;
  for (int j = 1; j <= trials; ++j) {
    const double places = caught.Of(j);
    if (places == 0) continue;
    if (count % kTogether == 0) seen.emplace_back();
    const size_t k = count++ % kTogether;
    seen.back().places[k] = places;
    const double ways = std::lgamma(trials + 1) - std::lgamma(j + 1) - std::lgamma(trials - j + 1);
    for (int i = 0; i < kRates; ++i) {
      const double log = ways + j * std::log(Hit(rate_[i])) - (trials - j) * rate_[i];
      seen.back().likely[i][k] = std::exp(log) / Hit(trials * rate_[i]);
    }
  }
  places_.fill(seen.empty() ? 0 : 1.0 / kRates);
#ifdef __x86_64__
  const auto maximise = __builtin_cpu_supports("avx2") ? &MaximiseByAvx2<kRates> : &Maximise<kRates>;
#else
  const auto maximise = &Maximise<kRates>;
#endif
  maximise(seen, &places_);
  // So far these are the places that were seen; now add those that were not.
  for (int i = 0; i < kRates; ++i) places_[i] /= Hit(std::max(trials, 1) * rate_[i]);
}

double Rates::HitAfter(double time) const {
  double sum = 0;
  for (int i = 0; i < kRates; ++i) sum += places_[i] * Hit(rate_[i] * time);
  return sum;
}

double Rates::Usual() const {
  double sum = 0, logs = 0;
  for (int i = 0; i < kRates; ++i) {
    const double hit = places_[i] * Hit(rate_[i]);
    sum += hit, logs += hit * std::log(rate_[i]);
  }
  return sum > 0 ? std::exp(logs / sum) : kHighestRate;
}

}  // namespace cowprof
