// What earlier workers tell of later ones: only of those of the same loader or pool, as far as is known. A tick is a
// second.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "builders.h"
#include "judged.h"
#include "model/judge/forecast.h"

namespace cowprof {
namespace {

constexpr uint64_t kMiB = 1 << 20, kPage = 4096;

// Workers that are forked and end together. Each takes `mib_each` of new memory in its first `ramp` seconds.
struct Set {
  int workers = 0;
  double mib_each = 0;
  int ramp = 1, seconds = 0;
  bool of_pool = false, of_loader = false;
  Origin origin = Origin::kForked;
};

struct Sets {
  Run run;
  std::vector<std::vector<Forecast>> forecasts;  // of each set, by its age

  // One set after another, in a cgroup that has 100 MiB beside them.
  Sets(const std::vector<Set>& sets, uint64_t limit_mib) {
    int next = 1, tick = 0;
    for (const Set& set : sets) {
      const int first = std::exchange(next, next + set.workers);
      forecasts.emplace_back();
      for (int age = 0; age <= set.seconds; ++age) {
        const double mib = set.mib_each * std::min(1.0, 1.0 * age / set.ramp);
        Sample sample = {.t = absl::Seconds(++tick), .processes = {RowWithCopies(0, 0)}};
        sample.processes[0].proc.anon_pages = 1000;
        if (tick == 1) sample.events = {Started(0, -1)};
        for (int index = first; index < next; ++index) {
          AddEvents(set, age, index, &sample);
          ProcessSample& row = sample.processes.emplace_back(RowWithCopies(index, 0));
          row.counts.zero_fill_pages = static_cast<uint64_t>(mib * kMiB) / kPage;
          row.counts.zero_upgrades = 0;
          row.proc.anon_pages = 100 + *row.counts.zero_fill_pages;
          if (set.of_loader && age > 0)
            row.loader =
                LoaderWorker{static_cast<uint64_t>(index - first), static_cast<uint64_t>(set.workers), std::nullopt};
        }
        const auto used = static_cast<uint64_t>((100 + set.workers * mib) * kMiB);
        sample.limits = {{LimitKind::kCgroupV2, "/job", limit_mib * kMiB, used}};
        for (Event& event : sample.events) event.t = sample.t;
        Append(sample, &run);
        forecasts.back().push_back(ForecastOf(run));
      }
    }
  }

 private:
  static void AddEvents(const Set& set, int age, int index, Sample* sample) {
    if (age == 0) {
      sample->events.push_back({.index = index,
                                .what = ProcessStarted{.id = {1000 + index, 7},
                                                       .parent = 0,
                                                       .space = 0,
                                                       .origin = set.origin,
                                                       .comm = "python",
                                                       .command = "python train.py"}});
    }
    if (age == 1 && set.of_pool) sample->events.push_back({.index = index, .what = DutyFound{.duty = Duty::kPool}});
    if (age == set.seconds) sample->events.push_back(Exited(index));
  }
};

void CheckOwn(const std::vector<Forecast>& forecasts, size_t from) {
  for (size_t age = from; age + 1 < forecasts.size(); ++age) {
    INFO(age << ": " << forecasts[age].sentence);
    CHECK(absl::StartsWith(forecasts[age].sentence, "flat: the workers own 20.0 MiB; "));
    CHECK_FALSE(forecasts[age].plateau_of_earlier);
    CHECK(forecasts[age].outlook == Outlook::kSafe);
  }
}

void CheckAsEarlier(const std::vector<Forecast>& forecasts, size_t from, size_t to, double mib) {
  for (size_t age = from; age < to; ++age) {
    INFO(age << ": " << forecasts[age].sentence);
    CHECK(forecasts[age].plateau_of_earlier);
    REQUIRE(forecasts[age].plateau_bytes);
    CHECK(forecasts[age].plateau_bytes->best == Approx(mib * kMiB).epsilon(0.01));
    CHECK(forecasts[age].unbounded_bytes_per_second == 0);
    CHECK_FALSE(forecasts[age].limits[0].eta);
  }
}

}  // namespace

TEST_CASE("what many workers reached is not expected of a few") {
  // 800 MiB, and 100 of others: 96 % of the limit.
  const Sets sets({{8, 100, 10, 20}, {2, 10, 1, 40}}, 940);
  CheckOwn(sets.forecasts[1], 8);
}

TEST_CASE("what a pool reached is not expected of a DataLoader's workers") {
  const Sets sets({{4, 200, 10, 20, true, false}, {4, 5, 1, 40, false, true}}, 940);
  CheckOwn(sets.forecasts[1], 8);
}

TEST_CASE("what workers of a short life reached is not expected of those that live on") {
  const Sets sets({{2, 200, 10, 20}, {2, 10, 1, 60}}, 500);
  CheckAsEarlier(sets.forecasts[1], 4, 25, 400);
  CheckOwn(sets.forecasts[1], 32);
}

TEST_CASE("training and validation that take turns are each expected to reach what they did") {
  const Set training = {4, 100, 20, 20}, validation = {1, 20, 12, 12};
  const Sets sets({training, validation, training, validation, validation, validation, training}, 1000);
  CheckAsEarlier(sets.forecasts[2], 0, 19, 380);
  for (const int set : {3, 4, 5}) CheckAsEarlier(sets.forecasts[set], 2, 11, 20 * 11 / 12.0);
  CheckAsEarlier(sets.forecasts[6], 0, 19, 380);
}

TEST_CASE("how long workers lived that were found at the attach is not known") {
  const Sets sets({{.workers = 2, .seconds = 5, .origin = Origin::kFoundAtAttach}, {.workers = 2, .seconds = 30}},
                  1000);
  const ForecastInputs& inputs = sets.run.estimates.forecast;
  REQUIRE(inputs.earlier.size() == 1);
  CHECK(std::isinf(inputs.earlier[0].seconds));
  CHECK(inputs.generation.seconds == 29);
}

}  // namespace cowprof
