#include "model/estimate/unseen_estimator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace cowprof {
namespace {

constexpr double kLowestRate = 0.002, kHighestRate = 6;  // hits per trial so far
constexpr int kSteps = 300;
constexpr size_t kTogether = 4;

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
  // Number of places with j hits, and how likely each rate makes j hits, given that a place is hit at all.
  std::vector<std::pair<double, std::array<double, kRates>>> seen;
  for (int j = 1; j <= trials; ++j) {
    if (caught.Of(j) == 0) continue;
    seen.push_back({caught.Of(j), {}});
    const double ways = std::lgamma(trials + 1) - std::lgamma(j + 1) - std::lgamma(trials - j + 1);
    for (int i = 0; i < kRates; ++i) {
      const double log = ways + j * std::log(Hit(rate_[i])) - (trials - j) * rate_[i];
      seen.back().second[i] = std::exp(log) / Hit(trials * rate_[i]);
    }
  }
  places_.fill(seen.empty() ? 0 : 1.0 / kRates);
  for (int step = 0; step < kSteps; ++step) {
    std::array<double, kRates> next = {};
    for (size_t first = 0; first < seen.size(); first += kTogether) {
      const size_t count = std::min(kTogether, seen.size() - first);
      // A sum waits for each of its additions: sums beside each other wait together.
      std::array<double, kTogether> all = {};
      std::array<const double*, kTogether> likely;
      for (size_t k = 0; k < kTogether; ++k) likely[k] = seen[first + std::min(k, count - 1)].second.data();
      for (int i = 0; i < kRates; ++i) {
        for (size_t k = 0; k < kTogether; ++k) all[k] += likely[k][i] * places_[i];
      }
      for (size_t k = 0; k < count; ++k) {
        if (all[k] <= 0) continue;
        const double places = seen[first + k].first;
        for (int i = 0; i < kRates; ++i) next[i] += places * likely[k][i] * places_[i] / all[k];
      }
    }
    places_ = next;
  }
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
