// The pace of copies where workers began at different times. Pages are of 4 KiB.
#include "model/judge/copies_ahead.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <variant>
#include <vector>

#include "builders.h"
#include "judged.h"

namespace cowprof {
namespace {

constexpr uint64_t kMiB = 1 << 20, kPage = 4096;

struct Worker {
  absl::Duration began;
  uint64_t mib_per_second = 0, most_mib = 0;  // that it copies, and how far
};

// Workers of a trainer with 6000 MiB, beside which a cgroup has room for `room_mib` at the end of `seconds`. Ticks come
// each minute until `close`, then each second.
struct Copied {
  Run run;
  Forecast forecast;

  Copied(const std::vector<Worker>& workers, int64_t close, int64_t seconds, uint64_t room_mib) {
    constexpr uint64_t kShared = 6000 * kMiB / kPage;
    const auto copied = [&](const Worker& worker, absl::Duration t) {
      const int64_t age = absl::ToInt64Seconds(t - worker.began);
      return std::min(worker.mib_per_second * static_cast<uint64_t>(age), worker.most_mib) * kMiB;
    };
    uint64_t limit = (6000 + room_mib) * kMiB;
    for (const Worker& worker : workers) limit += copied(worker, absl::Seconds(seconds));
    for (int64_t t = 0; t <= seconds; t += t < close ? 60 : 1) {
      Sample sample = {.t = absl::Seconds(t), .processes = {RowWithCopies(0, 0)}};
      sample.processes[0].proc.anon_pages = kShared;
      if (t == 0) sample.events = {Started(0, -1)};
      uint64_t used = kShared * kPage;
      for (size_t i = 0; i < workers.size(); ++i) {
        if (sample.t < workers[i].began) continue;
        const int index = static_cast<int>(i + 1);
        if (sample.t == workers[i].began) {
          sample.events.push_back(Started(index, 0));
          std::get<ProcessStarted>(sample.events.back().what).space = 0;
        }
        ProcessSample& row = sample.processes.emplace_back(RowWithCopies(index, copied(workers[i], sample.t) / kPage));
        row.counts.zero_fill_pages = row.counts.zero_upgrades = 0;
        row.proc.anon_pages = kShared;
        used += copied(workers[i], sample.t);
      }
      for (Event& event : sample.events) event.t = sample.t;
      sample.limits = {{LimitKind::kCgroupV2, "/job", limit, used}};
      Append(sample, &run);
    }
    forecast = ForecastOf(run);
  }
  double Rate() const { return CopiesAheadOf(run.model, run.estimates.forecast).rate / kMiB; }
  double Eta() const {
    REQUIRE(forecast.limits.size() == 1);
    REQUIRE(forecast.limits[0].eta);
    return absl::ToDoubleSeconds(*forecast.limits[0].eta);
  }
};

constexpr absl::Duration kStart = absl::ZeroDuration(), kHour = absl::Hours(1);
const Worker kFast = {kHour, 12, 5000};

}  // namespace

TEST_CASE("an idle worker that has lived for an hour does not slow down those that copy") {
  std::vector<Worker> workers(8, kFast);
  workers.insert(workers.begin(), Worker{kStart});
  const Copied copied(workers, 3600, 3660, 3840);
  CHECK(copied.Rate() == Approx(96).epsilon(0.01));
  CHECK(copied.Eta() == Approx(40).epsilon(0.05));
}

TEST_CASE("young workers beside others that have copied all they read are not at rest") {
  std::vector<Worker> workers(8, kFast);
  workers.insert(workers.begin(), 2, Worker{kStart, 100, 4000});
  const Copied copied(workers, 3600, 3603, 2400);
  CHECK(copied.Rate() == Approx(96).epsilon(0.01));
  CHECK(copied.Eta() == Approx(25).epsilon(0.05));
}

TEST_CASE("what single workers copy as they start is not the pace of all") {
  // Workers that have long been at rest, and one that is forked anew and copies 8 MiB.
  const Copied copied({{kStart, 100, 2000}, {kStart, 100, 2000}, {kHour, 4, 8}}, 3600, 3602, 1000);
  CHECK(copied.Rate() < 0.1);
  CHECK_FALSE(copied.forecast.limits[0].eta);
}

TEST_CASE("workers that were forked one after another, and all copy, have the pace of all") {
  std::vector<Worker> workers;
  for (int i = 0; i < 8; ++i) workers.push_back({kHour + absl::Seconds(i), 12, 5000});
  CHECK(Copied(workers, 3600, 3640, 4000).Rate() == Approx(96).epsilon(0.01));
}

// Four workers that read the same pages of an arena, in no order, and four that only started.
TEST_CASE("that workers which idle will copy as much as others is the worst case, and not expected") {
  constexpr uint64_t kPages = 16'384, kFirst = 1 << 20;
  std::mt19937 random(1);
  std::vector<bool> copied(kPages);
  Run run;
  uint64_t copies = 0;
  for (int tick = 0; tick < 20; ++tick) {
    Sample sample = {.t = absl::Seconds(tick), .processes = {RowWithCopies(0, 0)}};
    sample.processes[0].proc.anon_pages = kPages;
    if (tick == 0) {
      sample.events = {Started(0, -1)};
      sample.new_regions = {{0, {RegionKind::kPymallocArena, "", kFirst * kPage, (kFirst + kPages) * kPage}}};
    }
    for (int i = 0; tick > 0 && i < 400; ++i) {
      const uint64_t page = random() % kPages;
      if (copied[page]) continue;
      copied[page] = true;
      ++copies;
      for (int worker = 1; worker <= 4; ++worker) sample.pages.push_back({worker, Cause::kRefcount, kFirst + page, 1});
    }
    for (int worker = 1; worker <= 8; ++worker) {
      if (tick == 0) {
        sample.events.push_back(Started(worker, 0));
        std::get<ProcessStarted>(sample.events.back().what).space = 0;
      }
      if (tick == 1 && worker > 4) sample.pages.push_back({worker, Cause::kRefcount, kFirst, 100});
      ProcessSample& row =
          sample.processes.emplace_back(RowWithCopies(worker, worker <= 4 ? copies : std::min<uint64_t>(copies, 100)));
      row.counts.zero_fill_pages = row.counts.zero_upgrades = 0;
      row.proc.anon_pages = kPages;
    }
    Append(sample, &run);
  }
  const CopiesAhead ahead = CopiesAheadOf(run.model, run.estimates.forecast);
  CHECK(ahead.known);
  CHECK((ahead.private_bytes + ahead.rest.best) / kMiB == Approx(4 * 64 + 4 * 0.4).epsilon(0.15));
  CHECK(ahead.rest.low <= ahead.rest.best);
  CHECK(ahead.rest.high >= ahead.rest.best + 4 * 50 * kMiB);
}

}  // namespace cowprof
