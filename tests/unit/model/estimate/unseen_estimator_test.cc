// Rates of planted places, told from how often each was hit.
#include "model/estimate/unseen_estimator.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace cowprof {
namespace {

struct Kind {
  int copy_sites;
  double rate;  // hits of a trial
};

Caught Plant(const std::vector<Kind>& kinds, int trials) {
  Caught caught = {.at = std::vector<double>(trials + 1), .trials = trials};
  std::mt19937 random(1);
  for (const Kind& kind : kinds) {
    std::binomial_distribution<int> hits(trials, -std::expm1(-kind.rate));
    for (int i = 0; i < kind.copy_sites; ++i) ++caught.at[hits(random)];
  }
  return caught;
}

double Truth(const std::vector<Kind>& kinds, double time) {
  double sum = 0;
  for (const Kind& kind : kinds) sum += kind.copy_sites * -std::expm1(-kind.rate * time);
  return sum;
}

}  // namespace

TEST_CASE("places of one rate: those not seen yet") {
  for (const double rate : {0.1, 0.3, 1.5}) {
    INFO(rate);
    const Caught caught = Plant({{10'000, rate}}, 8);
    CHECK(caught.Seen() + caught.Unseen() == Approx(10'000).epsilon(0.05));
    const Rates rates(caught);
    CHECK(rates.HitAfter(1) == Approx(Truth({{10'000, rate}}, 1)).epsilon(0.03));
    CHECK(rates.HitAfter(10) == Approx(Truth({{10'000, rate}}, 10)).epsilon(0.10));
    CHECK(rates.Usual() == Approx(rate).epsilon(0.15));
  }
}

TEST_CASE("places of two rates: the rare ones come later, and Chao's figure has all of them at once") {
  const std::vector<Kind> kinds = {{5'000, 0.6}, {2'500, 0.03}};
  const Caught caught = Plant(kinds, 16);
  const Rates rates(caught);
  for (const double time : {1, 2, 5, 15, 40}) {
    INFO(time);
    CHECK(rates.HitAfter(time) == Approx(Truth(kinds, time)).epsilon(0.06));
  }
  CHECK(caught.Seen() + caught.Unseen() > 1.2 * Truth(kinds, 5));
}

TEST_CASE("odd catches do no harm") {
  std::vector<double> unlikely(1'000'001);  // between two rates, neither of which makes so many hits
  for (int hits = 180'000; hits < 220'000; hits += 100) unlikely[hits] = 1e9;
  for (const std::vector<double>& at : std::vector<std::vector<double>>{
           {}, {5}, {0, 0, 0, 0, 0}, {0, 1, 0, 0, 0}, {0, 0, 0, 0, 1e9}, std::vector<double>(4001, 3), unlikely}) {
    const Caught caught = {.at = at, .trials = std::max(static_cast<int>(at.size()) - 1, 0)};
    const Rates rates(caught);
    for (const double figure :
         {caught.Seen(), caught.Unseen(), rates.HitAfter(1), rates.HitAfter(1e9), rates.Usual()}) {
      CHECK(std::isfinite(figure));
      CHECK(figure >= 0);
    }
    CHECK(rates.HitAfter(1) <= caught.Seen() + 1e-9);
  }
}

}  // namespace cowprof
