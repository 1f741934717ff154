// Forecasts of planted histories: which limit is met and when, and above all when none is. Pages are of 4 KiB and a
// tick is a second unless a test says otherwise.
#include "model/judge/forecast.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "absl/strings/match.h"
#include "builders.h"
#include "judged.h"
#include "model/judge/forecast_format.h"
#include "random_recording.h"

namespace cowprof {
namespace {

constexpr uint64_t kMiB = 1 << 20, kPage = 4096;

Event Forked(int index, bool target = false) {
  return {.index = index,
          .what = ProcessStarted{.id = {1000 + index, 1},
                                 .parent = target ? -1 : 0,
                                 .space = target ? -1 : 0,
                                 .origin = target ? Origin::kTarget : Origin::kForked,
                                 .comm = "python3",
                                 .command = "python3"}};
}

ProcessSample Row(int index, uint64_t copies, uint64_t anon_pages) {
  ProcessSample row = {.index = index};
  row.counts.copies = copies;
  row.counts.zero_fill_pages = row.counts.zero_upgrades = 0;
  row.proc.anon_pages = anon_pages;
  return row;
}

LimitSample Cgroup(uint64_t limit, uint64_t used) { return {LimitKind::kCgroupV2, "/job", limit, used}; }

// A recording in the making.
struct Story {
  Run run;
  absl::Duration t, tick = absl::Seconds(1);

  Forecast Add(Sample sample) {
    t += tick;
    sample.t = t;
    for (Event& event : sample.events) event.t = t;
    Append(sample, &run);
    return ForecastOf(run);
  }
  // A target alone, in a cgroup of 1000 MiB of which `used` are used at each tick.
  Forecast Use(int ticks, const std::function<double(double)>& used_mib) {
    Forecast forecast;
    for (int i = 0; i < ticks; ++i) {
      Sample sample = {.processes = {Row(0, 0, 1000)}};
      if (run.model.samples == 0) sample.events = {Forked(0, /*target=*/true)};
      const double seconds = absl::ToDoubleSeconds(t + tick);
      sample.limits = {Cgroup(1000 * kMiB, static_cast<uint64_t>(used_mib(seconds) * kMiB))};
      forecast = Add(std::move(sample));
    }
    return forecast;
  }
};

double EtaOf(const Forecast& forecast) {
  REQUIRE(forecast.limits.size() == 1);
  REQUIRE(forecast.limits[0].eta);
  return absl::ToDoubleSeconds(*forecast.limits[0].eta);
}

// Workers that share an arena of `pages` pages with their parent and copy each page of it in random order, `a_second`
// at a time; the cgroup has what they copied beyond `base_mib`.
struct Shuffled {
  Story story;
  std::vector<uint64_t> order;
  uint64_t pages, at = 0, limit;
  int workers;

  Shuffled(uint64_t pages, int workers, uint64_t limit_mib)
      : order(4 * pages), pages(pages), limit(limit_mib * kMiB), workers(workers) {
    std::mt19937 random(1);
    for (uint64_t& page : order) page = random() % pages;
  }
  Forecast Read(int ticks, uint64_t a_second) {
    Forecast forecast;
    for (int i = 0; i < ticks; ++i) {
      Sample sample;
      if (story.run.model.samples == 0) {
        for (int worker = 0; worker <= workers; ++worker) sample.events.push_back(Forked(worker, worker == 0));
        sample.new_regions = {{0, {RegionKind::kPymallocArena, "", kPage << 20, (pages + (1 << 20)) * kPage}}};
        copied.resize(pages);
      } else {
        for (uint64_t end = std::min<uint64_t>(at + a_second, order.size()); at < end; ++at) {
          if (copied[order[at]]) continue;
          copied[order[at]] = true;
          ++copies;
          for (int worker = 1; worker <= workers; ++worker)
            sample.pages.push_back({worker, Cause::kRefcount, (1 << 20) + order[at], 1});
        }
      }
      sample.processes.push_back(Row(0, 0, pages));
      for (int worker = 1; worker <= workers; ++worker) sample.processes.push_back(Row(worker, copies, pages));
      sample.limits = {Cgroup(limit, (pages + workers * copies) * kPage)};
      forecast = story.Add(std::move(sample));
    }
    return forecast;
  }
  double Mib(uint64_t more_pages) const { return more_pages * kPage / double{kMiB}; }
  std::vector<bool> copied;
  uint64_t copies = 0;
};

}  // namespace

TEST_CASE("one sample, or none, says nothing") {
  Story story;
  CHECK(ForecastOf(story.run).outlook == Outlook::kUnknown);
  const Forecast forecast = story.Use(1, [](double) { return 500; });
  CHECK_FALSE(forecast.shape);
  CHECK_FALSE(forecast.limits[0].eta);
  CHECK(forecast.outlook == Outlook::kUnknown);
  CHECK(absl::StrContains(forecast.sentence, "too early"));
}

TEST_CASE("a ramp that fills a cgroup in two seconds has its time from the third sample on") {
  for (const double tick : {0.1, 0.5}) {
    Story story;
    story.tick = absl::Seconds(tick);
    const Forecast forecast = story.Use(3, [](double t) { return 100 + 450 * t; });
    INFO(tick);
    CHECK(EtaOf(forecast) == Approx(2 - 3 * tick).margin(0.1));
    CHECK(*forecast.limits[0].eta_earliest <= *forecast.limits[0].eta);
    CHECK(forecast.outlook == Outlook::kWillExceed);
    CHECK(forecast.first_limit == 0);
  }
}

TEST_CASE("the time comes nearer as the limit does, at any pace") {
  for (const double mib_per_second : {1.0, 10.0, 50.0}) {
    Story story;
    // A rise is extrapolated 30 times as far as it was seen.
    for (const int ticks : {mib_per_second < 10 ? 40 : 10, 4, 4}) {
      const Forecast forecast = story.Use(ticks, [&](double t) { return 100 + mib_per_second * t; });
      INFO(mib_per_second);
      CHECK(EtaOf(forecast) == Approx((900 - mib_per_second * story.run.model.samples) / mib_per_second).epsilon(0.1));
    }
  }
}

TEST_CASE("a step is not extrapolated beyond what its length tells; what goes on is") {
  Story story;
  const auto used = [](double t) { return 100 + 5 * std::clamp(t - 30, 0.0, 3.0); };
  for (int i = 0; i < 60; ++i) {
    const Forecast forecast = story.Use(1, used);
    INFO(forecast.sentence);
    CHECK_FALSE(forecast.limits[0].eta);
    CHECK(forecast.outlook != Outlook::kWillExceed);
    CHECK(forecast.outlook != Outlook::kTight);
  }
  Story leak;
  leak.Use(30, [](double) { return 100; });
  CHECK(EtaOf(leak.Use(12, [](double t) { return 100 + 5 * (t - 30); })) == Approx(168).epsilon(0.1));
}

namespace {

// A target alone that takes 50 MiB a second, from `age` seconds after its start on, in a cgroup of 16 GiB.
Forecast Loading(absl::Duration age, bool worker, int ticks) {
  Story story;
  story.run.model.info.started_target = true;
  story.run.model.info.target_age = age;
  Forecast forecast;
  for (int i = 0; i < ticks; ++i) {
    const uint64_t pages = 1000 + 50 * kMiB / kPage * i;
    Sample sample = {.processes = {Row(0, 0, pages)}};
    if (i == 0) sample.events = {Forked(0, /*target=*/true)};
    if (i == 0 && worker) sample.events.push_back(Forked(1));
    if (worker) sample.processes.push_back(Row(1, 0, 1000));
    sample.limits = {Cgroup(uint64_t{16} << 30, 100 * kMiB + pages * kPage),
                     {LimitKind::kDescriptors, "RLIMIT_NOFILE", 1024, uint64_t(24 + 10 * i)}};
    forecast = story.Add(std::move(sample));
  }
  return forecast;
}

}  // namespace

TEST_CASE("what a program takes by starting makes no trend; what it takes later, or beside workers, is") {
  for (const int seconds : {3, 5, 10, 20, 50}) {
    const Forecast forecast = Loading(absl::ZeroDuration(), false, seconds);
    INFO(forecast.sentence);
    CHECK(forecast.first_limit == -1);
    CHECK(forecast.unbounded_bytes_per_second == 0);
    CHECK(forecast.outlook == Outlook::kUnknown);
  }
  for (const auto& [age, worker] : {std::pair(absl::Seconds(100), false), {absl::ZeroDuration(), true}}) {
    const Forecast forecast = Loading(age, worker, 20);
    INFO(forecast.sentence);
    CHECK(forecast.first_limit >= 0);
    CHECK(forecast.unbounded_bytes_per_second == Approx(50.0 * kMiB).epsilon(0.1));
    CHECK(absl::StrContains(forecast.sentence, "no end in sight"));
  }
}

TEST_CASE("no limit is safe while an alert says that it will soon be met") {
  Story story;
  Forecast forecast = story.Use(12, [](double) { return 100; });
  REQUIRE(forecast.outlook == Outlook::kSafe);
  Alert alert = {.rule = AlertRule::kEta, .kind = forecast.limits[0].now.kind, .name = forecast.limits[0].now.name};
  const Forecast before = forecast;
  Heed(StandingOf({alert}), story.t, &forecast);
  CHECK(forecast == before);  // it says no time
  alert.eta = absl::Seconds(3);
  Alert over = alert;
  over.over = true;
  Heed(StandingOf({alert, over}), story.t, &forecast);
  CHECK(forecast == before);
  Heed(StandingOf({over, alert}), story.t, &forecast);
  INFO(forecast.sentence);
  CHECK(forecast.outlook == Outlook::kUnknown);
  CHECK_FALSE(absl::StrContains(forecast.sentence, "safe"));
  CHECK_FALSE(absl::StrContains(forecast.sentence, "flat"));
}

TEST_CASE("an alert of the ratio takes nothing back once the time that it gave has passed") {
  Story story;
  const Forecast before = story.Use(100, [](double) { return 910; });
  REQUIRE(before.outlook == Outlook::kSafe);
  const auto outlook = [&](AlertRule rule, double age, double eta) {
    Forecast forecast = before;
    const Alert alert = {.t = story.t - absl::Seconds(age),
                         .rule = rule,
                         .kind = before.limits[0].now.kind,
                         .name = before.limits[0].now.name,
                         .eta = absl::Seconds(eta)};
    Heed({&alert}, story.t, &forecast);
    CHECK((forecast == before) == (forecast.outlook == Outlook::kSafe));
    return forecast.outlook;
  };
  CHECK(outlook(AlertRule::kRatio, 49, 40) == Outlook::kUnknown);
  CHECK(outlook(AlertRule::kRatio, 51, 40) == Outlook::kSafe);
  CHECK(outlook(AlertRule::kRatio, 69, 18000) == Outlook::kUnknown);
  CHECK(outlook(AlertRule::kRatio, 71, 18000) == Outlook::kSafe);  // a trend shows by then
  CHECK(outlook(AlertRule::kEta, 99, 40) == Outlook::kUnknown);
}

TEST_CASE("nothing is flat beside an alert with a time, where the limit is tight, too") {
  Story story;
  Forecast forecast = story.Use(20, [](double) { return 960; });
  REQUIRE(forecast.outlook == Outlook::kTight);
  REQUIRE(forecast.shape == Shape::kFlat);
  forecast.still_since_attach = true;
  const Alert alert = {.t = story.t,
                       .rule = AlertRule::kEta,
                       .kind = forecast.limits[0].now.kind,
                       .name = forecast.limits[0].now.name,
                       .eta = absl::Seconds(1)};
  Heed({&alert}, story.t, &forecast);
  CHECK(forecast.outlook == Outlook::kTight);
  CHECK(forecast.sentence == "too early to tell how far it grows");
  // The time of the forecast stands.
  forecast = story.Use(1, [](double) { return 1000; });
  const Forecast met = forecast;
  REQUIRE(met.outlook == Outlook::kWillExceed);
  Heed({&alert}, story.t, &forecast);
  CHECK(forecast == met);
}

TEST_CASE("copies of workers that start fill no limit while nothing is known of their pages") {
  // 8 MiB each within two seconds, of 10 GiB that they could copy; the cgroup has room for 4.
  Story story;
  for (int i = 0; i < 10; ++i) {
    const uint64_t shared = (uint64_t{10} << 30) / kPage, copies = std::min<uint64_t>(1024 * i, 2048);
    Sample sample = {.processes = {Row(0, 0, shared), Row(1, copies, shared), Row(2, copies, shared)}};
    if (i == 0) sample.events = {Forked(0, /*target=*/true), Forked(1), Forked(2)};
    sample.limits = {Cgroup(uint64_t{14} << 30, (shared + 2 * copies) * kPage)};
    const Forecast forecast = story.Add(std::move(sample));
    INFO(forecast.sentence);
    CHECK_FALSE(forecast.limits[0].eta);
    CHECK(forecast.limits[0].outlook != Outlook::kWillExceed);
  }
}

TEST_CASE("the sentence is of the workers alone, and says so if they are unknown or gone") {
  Story story;
  const auto add = [&](Sample sample) {
    sample.limits = {Cgroup(1000 * kMiB, 300 * kMiB)};
    return story.Add(std::move(sample)).sentence;
  };
  std::string flat;
  for (int i = 0; i < 12; ++i) {
    // The target owns 400 MiB, the worker 20.
    Sample sample = {.processes = {Row(0, 0, 102'400), Row(1, 0, 1000 + 5120)}};
    if (i == 0) sample.processes[1].proc.anon_pages = 1000;
    if (i == 0) sample.events = {Forked(0, /*target=*/true), Forked(1)};
    flat = add(std::move(sample));
  }
  CHECK(absl::StartsWith(flat, "flat: the workers own 20.0 MiB; "));
  CHECK(absl::StartsWith(add({.events = {Exited(1)}, .processes = {Row(0, 0, 102'400)}}),
                         "no worker is alive; earlier ones reached 20.0 MiB; "));
  Forecast forecast = {.shape = Shape::kFlat, .forked = true, .living_workers = 1};
  CHECK(SentenceOf(forecast) == "what the workers own is not known");
  // Teeth: what is said of anything but the height is not what earlier workers did.
  forecast.sawtooth = forecast.workers_known = true;
  CHECK(SentenceOf(forecast) == "flat: the workers own 0 B");
  forecast.shape = Shape::kBounded;
  forecast.plateau_bytes = Estimate{1 << 20, 2 << 20, 3 << 20};
  CHECK(SentenceOf(forecast) == "plateaus at 2.0 MiB");
  forecast.plateau_of_earlier = true;
  CHECK(SentenceOf(forecast) == "plateaus at 2.0 MiB, as earlier workers did");
  forecast.shape = std::nullopt;
  CHECK(SentenceOf(forecast) == "too early to tell how far it grows");
  forecast.still_since_attach = true;
  CHECK(SentenceOf(forecast) == "nothing has grown since the attach; what the workers may still copy is not known");
}

TEST_CASE("a finding of growth takes back that memory is flat or safe, and leaves the nearest limit") {
  const auto limit = [](LimitKind kind, uint64_t used_mib) {
    const double used = used_mib * kMiB;
    return LimitForecast{
        .now = {kind, "/job", 1024 * kMiB, used_mib * kMiB}, .peak = {used, used, used}, .outlook = Outlook::kSafe};
  };
  const Forecast flat = {
      .shape = Shape::kFlat,
      .forked = true,
      .living_workers = 1,
      .workers_known = true,
      .plateau_bytes = Estimate{1 << 20, 2 << 20, 3 << 20},
      .limits = {limit(LimitKind::kShm, 0), limit(LimitKind::kHost, 200), limit(LimitKind::kCgroupV2, 600)},
      .nearest_limit = 2,
      .outlook = Outlook::kSafe};
  Forecast forecast = flat;
  HeedGrowth(&forecast);
  CHECK(forecast.nearest_limit == 2);
  CHECK(forecast.limits[0] == flat.limits[0]);
  for (const int memory : {1, 2}) {
    CHECK(forecast.limits[memory].outlook == Outlook::kUnknown);
    CHECK(std::isinf(forecast.limits[memory].peak.high));
  }
  CHECK(forecast.outlook == Outlook::kUnknown);
  CHECK_FALSE(forecast.plateau_bytes);
  CHECK(forecast.sentence == "grows, but too slowly or for too short a time to tell how far");
  forecast = flat;
  forecast.living_workers = 0;
  forecast.reached_bytes = 20 * kMiB;
  HeedGrowth(&forecast);
  CHECK(forecast.sentence == "no worker is alive; earlier ones reached 20.0 MiB");
  forecast = flat;
  forecast.shape = Shape::kBounded;
  HeedGrowth(&forecast);
  CHECK(forecast.outlook == Outlook::kUnknown);
  CHECK(forecast.plateau_bytes);
  CHECK(forecast.sentence ==
        "plateaus at 2.0 MiB, but for new memory that grows; limit 1.0 GiB (cgroup /job): unknown");
}

TEST_CASE("healthy cgroups have no time: level, noisy, loaded once, given back") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(-3, 3);
  const std::function<double(double)> shapes[] = {
      [](double) { return 900; },
      [&](double) { return 900 + noise(random); },
      [](double t) { return t < 6 ? 100 * t : 600; },
      [](double t) { return 800 - t; },
  };
  for (const auto& shape : shapes) {
    Story story;
    story.Use(14, shape);
    for (int i = 0; i < 60; ++i) {
      const Forecast forecast = story.Use(1, shape);
      CHECK_FALSE(forecast.limits[0].eta);
      CHECK(forecast.outlook == Outlook::kSafe);
    }
  }
  Story full;
  CHECK(full.Use(20, [](double) { return 960; }).outlook == Outlook::kTight);
  CHECK(EtaOf(full.Use(1, [](double) { return 1000; })) == 0);
}

namespace {

// In each epoch of 21 s a worker makes 400 MiB of new memory, and ends. The target has `outside_mib` at each tick.
// `add_others`: adds other processes to the sample of a tick, from index `*next` on.
std::vector<Forecast> Epochs(int epochs, uint64_t limit_mib, const std::function<double(int)>& outside_mib,
                             const std::function<void(int tick, int* next, Sample* sample)>& add_others = nullptr) {
  Story story;
  std::vector<Forecast> forecasts;
  int index = 0, next = 1;
  for (int tick = 0; tick < 21 * epochs; ++tick) {
    const int i = tick % 21;
    if (i == 0) index = next++;
    const uint64_t fresh = 20 * kMiB / kPage * i, outside = static_cast<uint64_t>(outside_mib(tick)) * kMiB / kPage;
    Sample sample = {.processes = {Row(0, 0, 1000 + outside), Row(index, 0, 1000 + fresh)}};
    if (tick == 0) sample.events.push_back(Forked(0, /*target=*/true));
    if (i == 0) sample.events.push_back(Forked(index));
    if (i == 20) sample.events.push_back(Exited(index));
    sample.processes.back().counts.zero_fill_pages = fresh;
    sample.limits = {Cgroup(limit_mib * kMiB, 100 * kMiB + (outside + fresh) * kPage)};
    if (add_others) add_others(tick, &next, &sample);
    forecasts.push_back(story.Add(std::move(sample)));
  }
  return forecasts;
}

Event Ran(int index, const std::string& program) {
  return {.index = index,
          .what = ProcessExeced{.comm = program, .command = program + " a b", .executable = "/usr/bin/" + program}};
}

void RunCommand(int, int* next, Sample* sample) {
  sample->events.insert(sample->events.end(), {Forked(*next), Ran(*next, "sox"), Exited(*next)});
  ++*next;
}

}  // namespace

TEST_CASE("what the next worker can cost is the memory of the program that may fork it, not of its launcher") {
  Story story;
  Forecast forecast;
  for (int i = 0; i < 12; ++i) {
    // The target, such as a shell, has 2 MiB; a trainer 200, and another program 800.
    Sample sample = {.processes = {Row(0, 0, 512), Row(1, 0, 51'200), Row(2, 0, 204'800)}};
    if (i == 0) sample.events = {Forked(0, /*target=*/true), Forked(1), Ran(1, "python3"), Forked(2), Ran(2, "java")};
    forecast = story.Add(std::move(sample));
  }
  CHECK(forecast.sentence == "no worker yet: each can cost up to 800.0 MiB");
  const auto bytes = [&story] { return ForecastOf(story.run).next_worker_bytes; };
  std::vector<ProcessModel>& processes = story.run.model.processes;
  processes[1].python = "3.11.2";
  CHECK(bytes() == 200 * kMiB);
  processes[1].proc.swap_pages = 25'600;  // which a fork shares, too
  CHECK(bytes() == 300 * kMiB);
  processes[1].proc.swap_pages = 0;
  processes[0].python = "3.11.2";  // torchrun
  CHECK(bytes() == 200 * kMiB);
  processes[1].role = Role::kRank;
  CHECK(bytes() == 200 * kMiB);
  // These fork nothing of that, or have ended.
  for (const Role role : {Role::kHelper, Role::kForkserver, Role::kWorker}) {
    processes[1].role = role;
    CHECK(bytes() == 2 * kMiB);
  }
  processes[1].role = Role::kRank;
  processes[1].ended = story.t;
  CHECK(bytes() == 2 * kMiB);
}

TEST_CASE("the second generation of workers is known from the first") {
  const bool swings = GENERATE(false, true);  // the target takes 42 MiB in each epoch, and gives them back
  const std::vector<Forecast> forecasts = Epochs(6, 640, [&](int tick) { return swings ? 2 * (tick % 21) : 0; });
  CHECK(forecasts[10].limits[0].eta);  // nobody can know
  for (size_t i = 22; i < forecasts.size(); ++i) {
    INFO(i);
    CHECK(forecasts[i].sawtooth);
    CHECK_FALSE(forecasts[i].limits[0].eta);
    CHECK(forecasts[i].unbounded_bytes_per_second == 0);
    if (i % 21 > 2 && i % 21 < 19) CHECK(forecasts[i].plateau_bytes->best == Approx(400.0 * kMiB).epsilon(0.1));
  }
}

TEST_CASE("what grows outside the workers is told in their second generation, too") {
  const bool commands = GENERATE(false, true);  // in each tick, one that ends at once
  const std::vector<Forecast> forecasts = Epochs(
      4, 1200, [](int tick) { return 2 * tick; }, commands ? RunCommand : nullptr);
  for (size_t i = 24; i < forecasts.size(); ++i) {
    INFO(i << ": " << forecasts[i].sentence);
    CHECK(forecasts[i].unbounded_bytes_per_second == Approx(2.0 * kMiB).epsilon(0.05));
    // 480 MiB are those that workers took and others have.
    CHECK(EtaOf(forecasts[i]) == Approx((1200 - 480 - 2.0 * i) / 2).epsilon(0.05));
    CHECK(forecasts[i].outlook == Outlook::kWillExceed);
  }
}

TEST_CASE("a large program that ends beside the workers hides no growth outside them") {
  int program = 0;
  const auto evaluation = [&program](int tick, int* next, Sample* sample) {
    if (tick < 5 || tick > 15) return;
    if (tick == 5) {
      program = (*next)++;
      sample->events.insert(sample->events.end(), {Forked(program), Ran(program, "python3")});
    }
    const uint64_t bytes = 30 * kMiB * std::min(tick - 5, 9);
    sample->limits[0].used += bytes;  // also when its end is told
    if (tick == 15)
      sample->events.push_back(Exited(program));
    else
      sample->processes.push_back(Row(program, 0, bytes / kPage));
  };
  const std::vector<Forecast> forecasts = Epochs(
      2, 1200, [](int tick) { return 2 * tick; }, evaluation);
  for (size_t i = 24; i < 41; ++i) {
    INFO(i << ": " << forecasts[i].sentence);
    CHECK(EtaOf(forecasts[i]) == Approx((1200 - 480 - 2.0 * i) / 2).epsilon(0.05));
  }
}

TEST_CASE("where workers end in every sample, a limit that fills beyond its earlier peak keeps its time") {
  Story story;
  const auto add = [&](std::vector<Event> events, const std::vector<int>& workers, uint64_t each_mib,
                       uint64_t used_mib) {
    Sample sample = {.events = std::move(events), .processes = {Row(0, 0, 1000)}};
    for (const int index : workers) {
      sample.processes.push_back(Row(index, 0, 1000 + each_mib * kMiB / kPage));
      sample.processes.back().counts.zero_fill_pages = each_mib * kMiB / kPage;
    }
    sample.limits = {Cgroup(1000 * kMiB, used_mib * kMiB)};
    return story.Add(std::move(sample));
  };
  add({Forked(0, /*target=*/true), Forked(1)}, {1}, 0, 100);
  for (int i = 0; i < 20; ++i) add({}, {1}, 300, 400);
  add({Exited(1)}, {1}, 300, 400);
  std::vector<Event> forked;
  std::vector<int> living;
  for (int index = 2; index < 62; ++index) {
    forked.push_back(Forked(index));
    living.push_back(index);
  }
  add(std::move(forked), living, 0, 100);
  Forecast forecast;
  for (int used_mib = 110; used_mib <= 500; used_mib += 10) {
    forecast = add({Exited(living.back())}, living, 0, used_mib);
    living.pop_back();
  }
  INFO(forecast.sentence);
  CHECK(forecast.sawtooth);
  CHECK(EtaOf(forecast) == Approx(50).epsilon(0.05));
}

TEST_CASE("what a program keeps of each epoch shows from one generation to the next") {
  const std::vector<Forecast> forecasts = Epochs(6, 2000, [](int tick) { return 63 * (tick / 21); });
  for (size_t i = 3 * 21; i < forecasts.size(); ++i) {
    INFO(i << ": " << forecasts[i].sentence);
    CHECK(forecasts[i].unbounded_bytes_per_second == Approx(3.0 * kMiB).epsilon(0.1));
    CHECK(EtaOf(forecasts[i]) == Approx((2000 - 480 - 3.0 * i) / 3).epsilon(0.1));
  }
}

TEST_CASE("where growth outside leaves no room for the workers, they meet the limit at their own pace") {
  const std::vector<Forecast> forecasts = Epochs(3, 560, [](int tick) { return 2 * tick; });
  // 20 MiB a second of the worker and 2 of the target.
  const Forecast& late = forecasts[2 * 21 + 12];
  INFO(late.sentence);
  CHECK(EtaOf(late) == Approx((560 - 100 - 2.0 * 54 - 240) / 22).epsilon(0.1));
}

TEST_CASE("a step outside the workers takes the room that the next ones need") {
  const auto at = [](uint64_t limit_mib) {
    return Epochs(2, limit_mib, [](int tick) { return tick < 26 ? 0 : 100; })[21 + 12];
  };
  const Forecast met = at(560), tight = at(600), safe = at(700);
  INFO(met.sentence);
  CHECK(EtaOf(met) == Approx((560 - 200 - 240) / 20).epsilon(0.1));
  CHECK_FALSE(tight.limits[0].eta);
  CHECK(tight.limits[0].peak.best == Approx(580.0 * kMiB).epsilon(0.02));
  CHECK(tight.outlook == Outlook::kTight);
  CHECK(safe.outlook == Outlook::kSafe);
}

TEST_CASE("a program that loads beside the second generation makes no trend, but takes room") {
  const auto epochs = [](uint64_t limit_mib) {
    int program = 0;
    const auto load = [&program](int tick, int* next, Sample* sample) {
      if (tick < 26) return;
      if (tick == 26) {
        program = (*next)++;
        sample->events.insert(sample->events.end(), {Forked(program), Ran(program, "python3")});
      }
      const uint64_t bytes = 20 * kMiB * (tick - 26);
      sample->processes.push_back(Row(program, 0, bytes / kPage));
      sample->limits[0].used += bytes;
    };
    return Epochs(
        2, limit_mib, [](int) { return 0; }, load);
  };
  const std::vector<Forecast> forecasts = epochs(1200);
  for (int tick = 27; tick < 40; ++tick) {
    INFO(tick << ": " << forecasts[tick].sentence);
    CHECK(forecasts[tick].unbounded_bytes_per_second == 0);
    CHECK_FALSE(forecasts[tick].limits[0].eta);
    CHECK(forecasts[tick].outlook == Outlook::kSafe);
  }
  CHECK(EtaOf(epochs(640)[36]) == Approx(2).epsilon(0.1));  // 100 + 200 of the program, and 380 of the worker to come
}

TEST_CASE("a generation that is forked as the last one ends is another one") {
  Story story;
  for (int i = 0; i < 6; ++i) {
    Sample sample = {.processes = {Row(0, 0, 1000), Row(2 * i + 1, 0, 1000), Row(2 * i + 2, 0, 1000)}};
    sample.events = {Forked(2 * i + 1), Forked(2 * i + 2)};
    if (i == 0) sample.events.insert(sample.events.begin(), Forked(0, /*target=*/true));
    if (i > 0) sample.events.insert(sample.events.end(), {Exited(2 * i - 1), Exited(2 * i)});
    CHECK(story.Add(std::move(sample)).sawtooth == (i > 0));
  }
  CHECK(story.run.estimates.forecast.generations == 5);
  CHECK(story.run.estimates.forecast.generation.workers == 2);
}

TEST_CASE("copies plateau: below the limit it is not met, above it the time is known") {
  // 4 workers x 64 MiB on top of 64: 320 MiB in the end.
  Shuffled below(16'384, 4, 400), above(16'384, 4, 250);
  Forecast safe = below.Read(8, 400), doomed = above.Read(8, 400);
  for (int i = 0; i < 40; ++i) {
    safe = below.Read(1, 400);
    CHECK_FALSE(safe.limits[0].eta);
    CHECK(safe.outlook == Outlook::kSafe);
    REQUIRE(safe.plateau_bytes);
    CHECK(safe.plateau_bytes->best == Approx(4 * 64.0 * kMiB).epsilon(0.15));
    CHECK(safe.unbounded_bytes_per_second == 0);
  }
  doomed = above.Read(2, 400);
  CHECK(doomed.shape == Shape::kBounded);
  CHECK(doomed.outlook == Outlook::kWillExceed);
  // 186 of 256 MiB have to be copied: x = -ln(1 - 186 / 256) * 16,384 pages at 400 a second, of which 9 are over.
  CHECK(EtaOf(doomed) == Approx(-std::log(1 - 186.0 / 256) * 16'384 / 400 - 9).epsilon(0.3));
}

TEST_CASE("what the parent copies is not the pace of workers that have stopped") {
  Story story;
  Forecast forecast;
  for (uint64_t i = 0; i < 40; ++i) {
    Sample sample = {.processes = {Row(0, 200 * i, 20'000), Row(1, 1000, 20'000), Row(2, 1000, 20'000)}};
    if (i == 0) sample.events = {Forked(0, /*target=*/true), Forked(1), Forked(2)};
    if (i == 0) sample.processes[1].counts.copies = sample.processes[2].counts.copies = 0;
    if (i == 0) sample.processes[0].sweep = SweepFigures{.full = true};
    sample.limits = {Cgroup(150 * kMiB, 100 * kMiB)};
    forecast = story.Add(std::move(sample));
  }
  REQUIRE(forecast.limits.size() == 1);
  CHECK_FALSE(forecast.limits[0].eta);
  CHECK_FALSE(forecast.plateau_eta_seconds);
  // It is told all the same, with what it may come to: 11,200 pages.
  CHECK(absl::StrContains(forecast.sentence, ", but other processes copy 800.0 KiB/s, and still share 43.8 MiB"));
  CHECK(forecast.limits[0].peak.high >= 143 * kMiB);
  CHECK(forecast.limits[0].outlook != Outlook::kSafe);
}

TEST_CASE("the joint ceiling has each shared page once for each process that can copy it") {
  Shuffled story(1000, 8, 400);
  const Forecast forecast = story.Read(3, 10);
  // The parent's 1000 pages and 1000 of each of 8 workers.
  CHECK(forecast.ceiling_bytes <= 9 * 1000 * kPage);
  CHECK(forecast.ceiling_bytes >= 8 * 1000 * kPage);
}

TEST_CASE("workers that copied all there was are flat, however long they live") {
  Shuffled story(4096, 2, 400);
  story.Read(60, 600);
  const Forecast forecast = story.Read(60, 600);
  CHECK(forecast.shape == Shape::kFlat);
  CHECK(forecast.plateau_bytes->best == Approx(2 * 16.0 * kMiB).epsilon(0.03));
  CHECK(forecast.outlook == Outlook::kSafe);
}

TEST_CASE("a leak is told by its pace") {
  Story story;
  Forecast forecast;
  for (int i = 0; i < 30; ++i) {
    Sample sample = {.processes = {Row(0, 0, 1000), Row(1, 0, 1000 + 2560 * i)}};
    if (i == 0) sample.events = {Forked(0, true), Forked(1)};
    sample.limits = {Cgroup(1000 * kMiB, 100 * kMiB + 10 * kMiB * i)};
    forecast = story.Add(std::move(sample));
  }
  CHECK(forecast.shape == Shape::kUnbounded);
  CHECK(forecast.unbounded_bytes_per_second == Approx(10.0 * kMiB).epsilon(0.05));
  CHECK(EtaOf(forecast) == Approx(61).epsilon(0.05));
  CHECK(absl::StrContains(forecast.sentence, "cgroup /job (1000.0 MiB) full in about"));
}

TEST_CASE("what comes back from swap is not a leak, and one that goes to swap is") {
  const auto forecast = [](auto anon_pages, auto swap_pages) {
    Story story;
    Forecast forecast;
    for (int i = 0; i < 30; ++i) {
      Sample sample = {.processes = {Row(0, 0, anon_pages(i))}};
      sample.processes[0].proc.swap_pages = swap_pages(i);
      if (i == 0) sample.events = {Forked(0, true)};
      forecast = story.Add(std::move(sample));
    }
    return forecast;
  };
  const auto back = forecast([](int i) { return 1000 + 2560 * i; }, [](int i) { return 2560 * (30 - i); });
  CHECK(back.unbounded_bytes_per_second == 0);
  CHECK(back.shape == Shape::kFlat);
  const auto leak = forecast([](int) { return 1000; }, [](int i) { return 2560 * i; });
  CHECK(leak.unbounded_bytes_per_second == Approx(10.0 * kMiB).epsilon(0.05));
}

TEST_CASE("the time left is rounded down, and finely while it is short") {
  const auto [seconds, words] = GENERATE(table<double, std::string>({{0.4, "1 s"},
                                                                     {89.9, "89 s"},
                                                                     {91, "1.5 min"},
                                                                     {120, "2 min"},
                                                                     {659, "10 min"},
                                                                     {5401, "1.5 h"},
                                                                     {47.9 * 3600, "47 h"},
                                                                     {200'000, "2.3 days"}}));
  const LimitForecast limit = {.now = Cgroup(1000 * kMiB, 100 * kMiB), .eta = absl::Seconds(seconds)};
  CHECK(FormatLimitEta(limit, /*with_bound=*/false) == "cgroup /job full in about " + words);
}

TEST_CASE("descriptors are a limit like others, and copies are not charged to them") {
  Story story;
  Forecast forecast;
  for (int i = 0; i < 20; ++i) {
    Sample sample = {.processes = {Row(0, 0, 1000)}};
    if (i == 0) sample.events = {Forked(0, true)};
    sample.limits = {{LimitKind::kDescriptors, "RLIMIT_NOFILE", 1024, uint64_t(24 + 10 * i)}};
    forecast = story.Add(std::move(sample));
  }
  CHECK(EtaOf(forecast) == Approx(81).epsilon(0.05));
}

TEST_CASE("of a program that has ended, each peak counts against the limit of its moment") {
  const auto outlook = [](uint64_t used, uint64_t limit, uint64_t later_used, uint64_t later_limit) {
    Story story;
    story.Add(
        {.events = {Forked(0, true)}, .processes = {Row(0, 0, 1000)}, .limits = {Cgroup(limit * kMiB, used * kMiB)}});
    story.Add({.processes = {Row(0, 0, 1000)}, .limits = {Cgroup(later_limit * kMiB, later_used * kMiB)}});
    const Forecast forecast = story.Add({.events = {Exited(0)}, .processes = {Row(0, 0, 0)}});
    REQUIRE(forecast.limits.size() == 1);
    CHECK(forecast.limits[0].now.limit == limit * kMiB);
    CHECK(forecast.limits[0].peak.best == Approx(used * kMiB));
    return forecast.outlook;
  };
  CHECK(outlook(500, 1000, 500, 1000) == Outlook::kSafe);
  CHECK(outlook(990, 1000, 990, 2000) == Outlook::kTight);
  CHECK(outlook(1000, 1000, 900, 2000) == Outlook::kWillExceed);
  CHECK(outlook(1200, 1600, 300, 800) == Outlook::kSafe);  // lowered later
}

TEST_CASE("of a program that has ended it is said what it came to") {
  Shuffled story(16'384, 2, 400);
  story.Read(30, 1000);
  const uint64_t copies = story.copies;
  Sample end = {.events = {Exited(1), Exited(2), Exited(0)}};
  end.processes = {Row(0, 0, 0), Row(1, copies, 0), Row(2, copies, 0)};
  const Forecast forecast = story.story.Add(std::move(end));
  CHECK(forecast.ended);
  CHECK(forecast.shape == Shape::kBounded);
  CHECK(forecast.plateau_bytes->best == 2.0 * copies * kPage);
  CHECK(forecast.outlook == Outlook::kSafe);
  CHECK_FALSE(forecast.limits[0].eta);
}

TEST_CASE("odd recordings give finite figures in their order") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    RandomRecording recording(seed);
    Run run = {.model = {.info = recording.Info()}};
    for (int i = 0; i < 60; ++i) {
      Append(recording.Next(), &run);
      const Forecast forecast = ForecastOf(run);
      for (const auto& estimate : {forecast.plateau_bytes, forecast.plateau_eta_seconds}) {
        if (!estimate) continue;
        CHECK(std::isfinite(estimate->best));
        CHECK(estimate->low <= estimate->best);
        CHECK(estimate->best <= estimate->high);
      }
      for (const LimitForecast& limit : forecast.limits) {
        CHECK_FALSE(std::isnan(limit.peak.best));
        CHECK(limit.peak.low <= limit.peak.best);
        CHECK(limit.peak.best <= limit.peak.high);
        if (limit.eta) CHECK(*limit.eta >= absl::ZeroDuration());
      }
    }
  }
}

TEST_CASE("thousands of workers, most of which have ended, are no matter") {
  Story story;
  for (int round = 0; round < 40; ++round) {
    Sample sample = {.processes = {Row(0, 0, 1000)}};
    for (int i = 0; i < 100; ++i) {
      const int index = 100 * round + i;
      sample.events.push_back(Forked(index, index == 0));
      if (index >= 64) sample.events.push_back(Exited(index - 64 + (index - 64 == 0)));
      sample.processes.push_back(Row(index, 10, 1000));
    }
    sample.limits = {Cgroup(1000 * kMiB, 100 * kMiB)};
    CHECK_FALSE(story.Add(std::move(sample)).limits[0].eta);
  }
  CHECK(story.run.estimates.forecast.copied_bytes.size() <= 128);
}

namespace {

// Two workers read large objects of malloc, each its own half, 20 s long; each page has the head of one object.
// `persistent`: what each says of itself; `looked`: it was looked where the heads are.
Forecast ReadHalves(uint64_t pages, std::array<std::optional<bool>, 2> persistent, bool looked) {
  Story story;
  std::vector<uint64_t> order(pages);
  std::iota(order.begin(), order.end(), 1 << 20);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  Forecast forecast;
  size_t at = 0;
  for (int tick = 0; tick < 20; ++tick) {
    Sample sample = {.processes = {Row(0, 0, pages)}};
    if (tick == 0) {
      sample.events = {Forked(0, /*target=*/true), Forked(1), Forked(2)};
      sample.new_regions = {{0, {RegionKind::kHeap, "", kPage << 20, (pages + (1 << 20)) * kPage}}};
      if (looked) sample.heads = {{0, 256, 256, 256}};
    }
    for (const size_t end = at + (tick == 0 ? 0 : 1'000); at < end; ++at)
      sample.pages.push_back({1 + static_cast<int>(at % 2), Cause::kRefcount, order[at], 1});
    for (const int worker : {1, 2}) {
      sample.processes.push_back(Row(worker, at / 2, pages));
      sample.processes.back().persistent = persistent[worker - 1];
    }
    sample.limits = {Cgroup(2000 * kMiB, (pages + at) * kPage)};
    forecast = story.Add(std::move(sample));
  }
  return forecast;
}

}  // namespace

TEST_CASE("a plateau that may as well be half or twice as high is not told") {
  const auto persistent =
      GENERATE(std::array<std::optional<bool>, 2>{}, std::array<std::optional<bool>, 2>{true, false},
               std::array<std::optional<bool>, 2>{std::nullopt, false});
  const Forecast forecast = ReadHalves(60'000, persistent, true);
  CHECK(forecast.shape == Shape::kBounded);
  CHECK_FALSE(forecast.plateau_bytes);
  CHECK_FALSE(forecast.plateau_eta_seconds);
  CHECK(absl::StrContains(forecast.sentence, "how much is not known yet"));
  CHECK(forecast.outlook == Outlook::kSafe);  // even all of it has room
}

TEST_CASE("of workers that end with the epoch it is told, where it was looked for heads") {
  const Forecast forecast = ReadHalves(60'000, {false, false}, true);
  REQUIRE(forecast.plateau_bytes);
  CHECK(forecast.plateau_bytes->best == Approx(60'000 * kPage).epsilon(0.05));
  CHECK(forecast.plateau_bytes->low <= 60'000 * kPage);
  CHECK(forecast.plateau_bytes->high >= 60'000 * kPage);
  // Of which 19,000 were read in 19 s.
  REQUIRE(forecast.plateau_eta_seconds);
  CHECK(forecast.plateau_eta_seconds->best == Approx(0.95 * 41).epsilon(0.05));
  // Without that look every other page may be one of those that are never written.
  const Forecast unsure = ReadHalves(60'000, {false, false}, false);
  if (unsure.plateau_bytes) CHECK(unsure.plateau_bytes->low < 0.7 * 60'000 * kPage);
}

}  // namespace cowprof
