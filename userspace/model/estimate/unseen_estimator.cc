#include "model/estimate/unseen_estimator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace cowprof {
namespace {

constexpr double kLowestRate = 0.002, kHighestRate = 6;  // hits per trial so far
constexpr int kSteps = 300;
// Less counts as 0: that a rate makes so many hits, or any of them. What the steps drop would otherwise become
// denormal, and each product with that takes a hundred cycles.
constexpr double kImpossible = 1e-200;
constexpr double kNoPlaces = 1e-100;
// Vectors are an extension of gcc and clang.
constexpr size_t kTogether = 8;
using Together = double __attribute__((vector_size(kTogether * sizeof(double))));
static_assert(Rates::kRates % kTogether == 0);
using OfRates = std::array<Together, Rates::kRates / kTogether>;

struct Hits {
  double places = 0;    // with j hits: some j
  OfRates likely = {};  // how likely each rate makes j hits, given that a place is hit at all
};

// In a tree, since each addition waits for those before it.
[[gnu::always_inline]] inline double SumOf(const Together& of) {
  const auto four = __builtin_shufflevector(of, of, 0, 1, 2, 3) + __builtin_shufflevector(of, of, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

[[gnu::always_inline]] inline void Maximise(const std::vector<Hits>& seen, OfRates* places) {
  for (int step = 0; step < kSteps; ++step) {
    OfRates factors = {};
    for (const Hits& hits : seen) {
      Together all = {};
      for (size_t i = 0; i < factors.size(); ++i) all += hits.likely[i] * (*places)[i];
      const double sum = SumOf(all), of_each = sum > kImpossible ? hits.places / sum : 0;
      for (size_t i = 0; i < factors.size(); ++i) factors[i] += hits.likely[i] * of_each;
    }
    for (size_t i = 0; i < factors.size(); ++i) {
      const Together now = (*places)[i] * factors[i];
      (*places)[i] = now > kNoPlaces ? now : Together{};
    }
  }
}

// A page has hundreds of forecasts, each of which takes all of these steps. Only the vectors are wider: the additions
// and their order are the same, and so is the result.
#ifdef __x86_64__
[[gnu::target("avx2")]] void MaximiseByAvx2(const std::vector<Hits>& seen, OfRates* places) { Maximise(seen, places); }
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
  std::array<double, kRates> hit_logs, seen_at_all;
  for (int i = 0; i < kRates; ++i) {
    rate_[i] = kLowestRate * std::pow(kHighestRate / kLowestRate, i / (kRates - 1.0));
    hit_logs[i] = std::log(Hit(rate_[i]));
    seen_at_all[i] = Hit(trials * rate_[i]);
  }
  std::vector<Hits> seen;
  for (int j = 1; j <= trials; ++j) {
    const double places = caught.Of(j);
    if (places == 0) continue;
    Hits& hits = seen.emplace_back();
    hits.places = places;
    const double ways = std::lgamma(trials + 1) - std::lgamma(j + 1) - std::lgamma(trials - j + 1);
    for (int i = 0; i < kRates; ++i) {
      const double likely = std::exp(ways + j * hit_logs[i] - (trials - j) * rate_[i]) / seen_at_all[i];
      hits.likely[i / kTogether][i % kTogether] = likely > kImpossible ? likely : 0;
    }
  }
  OfRates fitted;
  fitted.fill(Together{} + (seen.empty() ? 0 : 1.0 / kRates));
#ifdef __x86_64__
  const auto maximise = __builtin_cpu_supports("avx2") ? &MaximiseByAvx2 : &Maximise;
#else
  const auto maximise = &Maximise;
#endif
  maximise(seen, &fitted);
  // These are the places that were seen; with those that were not there are more.
  for (int i = 0; i < kRates; ++i)
    places_[i] = fitted[i / kTogether][i % kTogether] / Hit(std::max(trials, 1) * rate_[i]);
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
