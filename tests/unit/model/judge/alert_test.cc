// Planted runs, told to AlertWatch as the recording loop tells them: looks at the limits between ticks, ticks that are
// due or asked for. What must be said, when, of whom, how often; and what must not.
#include "model/judge/alert.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/facts/run_model.h"
#include "model/judge/alert_format.h"
#include "model/judge/findings.h"
#include "model/judge/forecast.h"

namespace cowprof {
namespace {

constexpr uint64_t kMb = 1 << 20, kPagesOfMb = kMb / 4096;

// A run of a target and a worker. All in MB and seconds.
struct Scenario {
  LimitKind kind = LimitKind::kCgroupV1;
  double limit = 1000;
  std::function<double(double)> used = [](double) { return 100.0; };
  std::function<double(double)> copied = [](double) { return 0.0; };  // by the worker; the rest is its new memory
  bool of_files = false;                                              // what is copied is pages of files
  double still_shared = 0;                                            // that it could copy besides
  double worker_from = 0;                                             // < 0: there is none
  double worker_until = 1e9;                                          // then it has ended
  double worker_stops = 1e9;                                          // then others take what is used more
  std::function<double(double)> leaked = [](double) { return 0.0; };  // of what is used, by the target
  double pool = 0;                                                    // of workers that ended since the last tick
  bool started = false;                                               // the target, by cowprof
  std::optional<double> age;                                          // of the target at t = 0
  bool spawned = false;                                               // the worker: it called exec
  double until = 60;
  bool exits = false;  // the target, when the limit can't be read any more
  double unread_from = 1e9, lifted_from = 1e9, resized_from = 1e9, resized_to = 0;
  Outlook outlook = Outlook::kUnknown;
  bool plateau_known = true;
  Cause cause = Cause::kRefcount;  // of the copies
  int workers = 1;                 // that copy as much each; `used` and `copied` are of all
  Role role = Role::kWorker;
  AlertSettings settings;
};

class Player {
 public:
  explicit Player(const Scenario& run) : run_(run), watch_(run.settings) {
    model_.info.started_target = run.started;
    if (run.age) model_.info.target_age = absl::Seconds(*run.age);
    model_.processes.push_back({.index = 0, .id = {100, 1}, .origin = Origin::kTarget, .role = Role::kParent});
    model_.processes[0].private_bytes = 50 * kMb;
  }

  std::vector<Alert> Play() {
    double next_tick = 0;
    for (double t = 0; t <= run_.until;) {
      bool tick = t >= next_tick;
      if (!tick) tick = watch_.Look(absl::Seconds(t), Limits(t));
      if (tick) {
        Tick(t);
        next_tick = t + std::min(1.0, 0.1 * ticks_);  // the first ones come quicker
      }
      t = std::min(std::max(absl::ToDoubleSeconds(watch_.next_look()), t + 0.01), std::max(next_tick, t + 0.01));
    }
    return alerts_;
  }
  int ticks() const { return ticks_; }

 private:
  std::vector<LimitSample> Limits(double t) const {
    std::vector<LimitSample> limits = {
        {.kind = LimitKind::kHost, .name = "host", .limit = 64000 * kMb, .used = 9000 * kMb}};
    const double limit = t >= run_.resized_from ? run_.resized_to : run_.limit;
    LimitSample own = {.kind = run_.kind,
                       .name = "/job",
                       .limit = static_cast<uint64_t>(limit * kMb),
                       .used = static_cast<uint64_t>(run_.used(t) * kMb)};
    if (t >= run_.lifted_from) own.limit.reset();
    if (t < run_.unread_from) limits.push_back(own);
    return limits;
  }

  void Tick(const double now) {
    ++ticks_;
    double t = now;
    model_.processes[0].private_bytes = static_cast<uint64_t>((50 + run_.leaked(t)) * kMb);
    const auto bytes = [](double mb) { return static_cast<uint64_t>(std::max(mb, 0.0) * kMb); };
    if (run_.worker_from >= 0 && t >= run_.worker_from) {
      if (model_.processes.size() == 1) {
        model_.processes.push_back({.index = 1, .id = {200, 2}, .parent = 0, .role = run_.role});
        model_.processes[1].started = absl::Seconds(run_.worker_from);
        model_.processes[1].execed = run_.spawned;
      }
      ProcessModel& worker = model_.processes[1];
      if (t >= run_.worker_until) {
        worker.ended = absl::Seconds(run_.worker_until);
        t = run_.worker_until;  // its figures stay
      }
      worker.private_bytes =
          bytes((run_.used(std::min(t, run_.worker_stops)) - run_.used(run_.worker_from)) / run_.workers);
      worker.counts.copies = static_cast<uint64_t>(run_.copied(t) / run_.workers * kPagesOfMb);
      worker.counts.shm_pages = run_.kind == LimitKind::kShm ? bytes(run_.used(t)) / 4096 : 0;
      worker.copies_of_files = run_.of_files ? *worker.counts.copies : 0;
      worker.still_shared_bytes = bytes(run_.still_shared - (run_.of_files ? 0 : run_.copied(t) / run_.workers));
      worker.causes.emplace();
      (*worker.causes)[static_cast<size_t>(run_.cause)] = *worker.counts.copies;
      for (int index = 2; index <= run_.workers; ++index) {
        if (static_cast<int>(model_.processes.size()) == index) model_.processes.emplace_back();
        model_.processes[index] = model_.processes[1];
        model_.processes[index].index = index;
        model_.processes[index].id = {200 + index, 2};
      }
    } else {
      model_.processes[0].proc.anon_pages = bytes(run_.used(t)) / 4096;
    }
    if (run_.pool > 0) {
      model_.processes.push_back({.index = static_cast<int>(model_.processes.size()),
                                  .parent = 0,
                                  .origin = Origin::kForked,
                                  .role = Role::kWorker,
                                  .ended = absl::Seconds(now)});
      model_.processes.back().private_bytes = bytes(run_.pool);
    }
    model_.t = absl::Seconds(now);
    Sample sample = {.t = absl::Seconds(now), .limits = Limits(now)};
    sample.processes.push_back({.index = 0});
    if (!run_.exits || now < run_.unread_from) sample.processes[0].proc.threads = 1;
    Forecast forecast = {.plateau_known = run_.plateau_known};
    for (const LimitSample& limit : sample.limits) forecast.limits.push_back({.now = limit, .outlook = run_.outlook});
    for (Alert& alert : watch_.Judge(sample, model_, forecast)) alerts_.push_back(std::move(alert));
  }

  Scenario run_;
  AlertWatch watch_;
  RunModel model_;
  std::vector<Alert> alerts_;
  int ticks_ = 0;
};

std::vector<Alert> AlertsOf(const Scenario& run) { return Player(run).Play(); }

std::string Told(const std::vector<Alert>& alerts) {
  std::string text;
  for (const Alert& alert : alerts)
    absl::StrAppend(&text, absl::ToDoubleSeconds(alert.t), " ", alert.over ? "over " : "", alert.text, "\n");
  return text;
}

AlertSettings Only(const std::function<void(AlertRules*)>& change) {
  AlertSettings settings;
  for (AlertRules& rules : settings.of_kind) {
    rules = {.ratio = std::nullopt, .eta = std::nullopt};
    change(&rules);
  }
  return settings;
}

}  // namespace

TEST_CASE("a ramp of a worker is told before half of it is over, or half a minute before its end") {
  const double seconds = GENERATE(0.5, 1.0, 2.0, 5.0, 20.0, 60.0, 200.0, 2000.0), base = GENERATE(10.0, 500.0);
  const Scenario run = {.used = [=](double t) { return std::min(base + (1000 - base) * t / seconds, 1000.0); },
                        .until = seconds};
  const std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE(!alerts.empty());
  CHECK(seconds - absl::ToDoubleSeconds(alerts[0].t) >= std::min(30.0, seconds / 2));
  CHECK((alerts[0].rule == AlertRule::kEta) ==
        (seconds < 1000));  // nine tenths are 200 s before the end of the longest
  CHECK(alerts[0].kind == LimitKind::kCgroupV1);
  CHECK(alerts[0].name == "/job");
  CHECK(alerts[0].index == 1);
  CHECK(alerts[0].cause == "new-memory");
  CHECK(absl::ToDoubleSeconds(*alerts[0].eta) == Approx(seconds - absl::ToDoubleSeconds(alerts[0].t)).epsilon(0.2));
  CHECK(absl::StrContains(alerts[0].text, "worker 200 grows most: new memory"));
  CHECK(absl::StrContains(alerts[0].advice, "look for what it keeps"));
  // Once for each rule.
  CHECK(alerts.size() <= 2);
}

TEST_CASE("a ramp with so much room that only ticks look is told in its time") {
  Scenario run = {.limit = 256'000, .used = [](double t) { return 100'000 + 150 * t; }, .until = 500};
  run.settings.of_kind[static_cast<size_t>(run.kind)].eta = absl::Minutes(10);
  const std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE(alerts.size() == 1);
  CHECK(alerts[0].rule == AlertRule::kEta);
  CHECK(absl::ToDoubleSeconds(alerts[0].t) == Approx(450).margin(3));  // 440 s and the hold
}

TEST_CASE("of a climb that others go on with, whoever began it is not named") {
  for (const double stops : {5.0, 40.0, 1e9}) {
    Scenario run = {.used = [](double t) { return std::min(100 + 5 * t, 990.0); }, .worker_stops = stops, .until = 200};
    const std::vector<Alert> alerts = Player(run).Play();
    REQUIRE_FALSE(alerts.empty());
    for (const Alert& alert : alerts) {
      INFO(alert.text);
      CHECK(absl::StrContains(alert.text, "what grows is outside the recorded processes") == (stops < 1e9));
      CHECK(alert.index == (stops < 1e9 ? -1 : 1));
    }
  }
}

TEST_CASE("who grows is named as in other sentences, not by a role of the recording") {
  Scenario run = {.used = [](double t) { return std::min(10 + 90 * t, 1000.0); }, .until = 11};
  for (const auto& [role, name] : {std::pair(Role::kPool, "worker"), std::pair(Role::kOther, "process")}) {
    run.role = role;
    const std::vector<Alert> alerts = AlertsOf(run);
    REQUIRE(!alerts.empty());
    INFO(Told(alerts));
    CHECK(absl::StrContains(alerts[0].text, absl::StrCat("; ", name, " 200 grows most: new memory")));
  }
}

TEST_CASE("copies that do not fit are told, with their cause; those that fit are not") {
  Scenario run = {.used = [](double t) { return std::min(400 + 20 * t, 1000.0); },
                  .copied = [](double t) { return std::min(20 * t, 600.0); },
                  .still_shared = 900,
                  .until = 30};
  const std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE(!alerts.empty());
  CHECK(alerts[0].rule == AlertRule::kEta);
  CHECK(alerts[0].cause == "refcount");
  CHECK(absl::StrContains(alerts[0].advice, "columns"));

  // 480 of them make 880 of 1000.
  run.used = [](double t) { return std::min(400 + 20 * t, 880.0); };
  run.copied = [](double t) { return std::min(20 * t, 480.0); };
  run.still_shared = 480;
  CHECK(Told(AlertsOf(run)) == "");
}

TEST_CASE(
    "workers that take memory as they start, and then copies that fit, are not told; a leak beside such copies is") {
  // 450 MB of copies at `rate` MB a second end at 88 to 90 % of the limit; within the first tenth 40 MB are new.
  const double rate = GENERATE(50.0, 200.0, 500.0, 1000.0, 2000.0);
  const double seconds = 450 / rate;
  const auto copied = [=](double t) { return std::min(rate * std::max(t - seconds / 20, 0.0), 450.0); };
  const auto fresh = [=](double t) { return std::min(400 / seconds * t, 40.0); };
  Scenario run = {.used = [=](double t) { return 400 + copied(t) + fresh(t); },
                  .copied = copied,
                  .still_shared = GENERATE(450.0, 500.0),
                  .until = std::max(2 * seconds, 4.0)};
  INFO(rate);
  CHECK(Told(AlertsOf(run)) == "");

  if (rate > 1000) return;  // a limit that is met within 0.15 s
  // As much again is leaked while they copy: the limit is met after 600 MB of both.
  const double end = 600 / (2 * rate);
  run.used = [=](double t) { return std::min(400 + 2 * rate * t, 1000.0); };
  run.copied = [=](double t) { return std::min(rate * t, 300.0); };
  run.until = end;
  const std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE(!alerts.empty());
  CHECK(absl::ToDoubleSeconds(alerts[0].t) <= 0.7 * end);
  CHECK(alerts[0].rule == AlertRule::kEta);
}

TEST_CASE("a program that starts is told by the ratio alone, at any pace") {
  const double seconds = GENERATE(2.0, 10.0, 40.0);
  const bool spawned = GENERATE(false, true);
  const auto loads_to = [=](double most) {
    return Scenario{.used = [=](double t) { return 100 + std::min(900 * t / seconds, most - 100); },
                    .worker_from = spawned ? 0.0 : -1.0,
                    .started = true,
                    .spawned = spawned,
                    .until = most < 1000 ? 55 : seconds};
  };
  CHECK(Told(AlertsOf(loads_to(880))) == "");
  const std::vector<Alert> alerts = AlertsOf(loads_to(1000));
  INFO(Told(alerts));
  REQUIRE(!alerts.empty());
  CHECK(alerts[0].rule == AlertRule::kRatio);
  CHECK(absl::ToDoubleSeconds(alerts[0].t) < 0.97 * seconds);
  // An old program is reported sooner.
  Scenario old = loads_to(1000);
  old.spawned = false;
  old.age = 100;
  const std::vector<Alert> sooner = AlertsOf(old);
  REQUIRE(!sooner.empty());
  CHECK(sooner[0].rule == AlertRule::kEta);
}

TEST_CASE(
    "copies whose end nothing tells yet are no danger in the first seconds, and the ratio says how much may come") {
  // Four workers share what they read: each copies a quarter of 480 MB and could copy all of it and more.
  const double seconds = GENERATE(0.8, 1.5, 5.0, 20.0);
  const auto grows_to = [=](double most) {
    return Scenario{.used = [=](double t) { return 400 + std::min(480 * t / seconds, most); },
                    .copied = [=](double t) { return std::min(480 * t / seconds, most); },
                    .still_shared = 700,
                    .until = most < 600 ? 2 * seconds + 4 : 1.25 * seconds,
                    .plateau_known = false,
                    .workers = 4};
  };
  Scenario run = grows_to(480);
  CHECK(Told(AlertsOf(run)) == "");
  run.still_shared = 490;
  run.cause = Cause::kData;
  CHECK(Told(AlertsOf(run)) == "");

  const std::vector<Alert> alerts = AlertsOf(grows_to(600));
  INFO(Told(alerts));
  REQUIRE(alerts.size() == 1);
  CHECK(alerts[0].rule == AlertRule::kRatio);
  CHECK(alerts[0].eta);
  CHECK(absl::StrContains(alerts[0].text, "if copying goes on (at most "));
  CHECK(absl::StrContains(alerts[0].text, "grows most: copies"));
}

TEST_CASE("copies are told by their straight line where one worker writes all that it inherits, or where they last") {
  Scenario run = {.used = [](double t) { return std::min(400 + 200 * t, 1000.0); },
                  .copied = [](double t) { return std::min(200 * t, 600.0); },
                  .still_shared = 900,
                  .until = 3,
                  .plateau_known = false,
                  .cause = Cause::kData};
  std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE(!alerts.empty());
  CHECK(alerts[0].rule == AlertRule::kEta);
  CHECK(absl::ToDoubleSeconds(alerts[0].t) <= 1.5);

  run.used = [](double t) { return std::min(400 + 6 * t, 1000.0); };
  run.copied = [](double t) { return std::min(6 * t, 600.0); };
  run.until = 100;
  run.cause = Cause::kRefcount;
  alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE(!alerts.empty());
  CHECK(alerts[0].rule == AlertRule::kEta);
  CHECK(absl::ToDoubleSeconds(alerts[0].t) > 30);
  CHECK(absl::ToDoubleSeconds(alerts[0].t) <= 50);
}

TEST_CASE("copied pages of files have no ceiling in what is inherited, and are called what they are") {
  Scenario run = {.used = [](double t) { return std::min(400 + 20 * t, 1000.0); },
                  .copied = [](double t) { return std::min(20 * t, 600.0); },
                  .still_shared = 480,
                  .until = 30,
                  .cause = Cause::kData};
  run.of_files = true;
  const std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE(!alerts.empty());
  CHECK(alerts[0].rule == AlertRule::kEta);
  CHECK(alerts[0].cause == "data");
  CHECK(absl::StrContains(alerts[0].text, "worker 200 grows most: copied pages of files that it maps privately"));
}

TEST_CASE("where the ceiling does not fit the forecast's word counts") {
  Scenario run = {.used = [](double t) { return 300 + 550 * (1 - std::exp(-t / 10)); },
                  .copied = [](double t) { return 550 * (1 - std::exp(-t / 10)); },
                  .still_shared = 5000,
                  .outlook = Outlook::kSafe};
  CHECK(Told(AlertsOf(run)) == "");
}

TEST_CASE("healthy shapes are silent") {
  const auto [name, run] = GENERATE(table<std::string, Scenario>({
      {"flat from the start", {.used = [](double) { return 850.0; }}},
      {"loads to three quarters before there is a worker",
       {.used = [](double t) { return std::min(50 + 300 * t, 750.0); }, .worker_from = 10, .started = true}},
      {"loads slowly",
       {.used = [](double t) { return std::min(50 + 20 * t, 750.0); }, .worker_from = 50, .started = true}},
      {"a worker takes a little of what is left", {.used = [](double t) { return 750 + std::min(60 * t, 60.0); }}},
      {"teeth that give all of it back",
       {.used = [](double t) { return 300 + 40 * std::fmod(t, 10); },
        .copied = [](double t) { return 40 * std::fmod(t, 10); },
        .still_shared = 400}},
      {"teeth of new memory, a quarter high", {.used = [](double t) { return 300 + 17 * std::fmod(t, 10); }}},
      {"noise", {.used = [](double t) { return 700 + 50 * std::sin(40 * t); }}},
      {"levels off at two thirds", {.used = [](double t) { return 50 + 350 * (1 - std::exp(-t / 8)); }}},
      {"a slow leak, hours away", {.used = [](double t) { return 100 + 0.05 * t; }, .until = 600}},
      {"batches in flight",
       {.kind = LimitKind::kShm, .limit = 64, .used = [](double t) { return std::min(60 * t, 30.0); }}},
  }));
  INFO(name);
  CHECK(Told(AlertsOf(run)) == "");
}

TEST_CASE("memory of a worker that has ended and is not given back yet is no danger") {
  for (double end = 0.4; end < 0.65; end += 0.01) {
    const auto used = [end](double t) { return t < end + 0.1 ? 250 + 400 * std::min(t, end) : 250; };
    const Scenario run = {.limit = 600,
                          .used = used,
                          .copied = [](double t) { return 400 * t; },
                          .still_shared = 250,
                          .worker_until = end,
                          .until = 2};
    INFO(end);
    CHECK(Told(AlertsOf(run)) == "");
  }
}

TEST_CASE("workers that come and go do not hide a leak") {
  const auto leaked = [](double t) { return 20 * t; };
  const Scenario run = {.used = [=](double t) { return 300 + leaked(t); }, .leaked = leaked, .pool = 400, .until = 30};
  const std::vector<Alert> alerts = AlertsOf(run);
  REQUIRE(alerts.size() == 1);
  CHECK(alerts[0].t < absl::Seconds(20));
}

TEST_CASE("what is due but no danger does not cost a tick at every look") {
  const Scenario run = {.used = [](double t) { return std::min(200 + 20 * t, 800.0); },
                        .copied = [](double t) { return std::min(20 * t, 600.0); },
                        .still_shared = 600,
                        .until = 30};
  Player player(run);
  CHECK(Told(player.Play()) == "");
  CHECK(player.ticks() < 45);
}

TEST_CASE("a ratio must hold, is told once, and ends well below") {
  // 91 % for 1 s, then from 10 s to 30 s, with a dent to 88 %.
  const Scenario run = {.used =
                            [](double t) {
                              if (t >= 5 && t < 6) return 910.0;
                              if (t >= 20 && t < 22) return 880.0;
                              return t >= 10 && t < 30 ? 910.0 : 700.0;
                            },
                        .settings = Only([](AlertRules* rules) {
                          rules->ratio = 0.9;
                          rules->ratio_hold = absl::Seconds(2);
                        })};
  const std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE(alerts.size() == 2);
  CHECK(absl::ToDoubleSeconds(alerts[0].t) == Approx(12).margin(0.3));
  CHECK(alerts[0].rule == AlertRule::kRatio);
  CHECK_FALSE(alerts[0].over);
  CHECK(absl::StrContains(alerts[0].text, "91 % full"));
  CHECK(alerts[1].over);
  CHECK(absl::ToDoubleSeconds(alerts[1].t) == Approx(32).margin(0.3));
}

TEST_CASE("the alert of a small ratio ends, too, and is told again") {
  const double ratio = GENERATE(0.03, 0.05);
  const double below = GENERATE(0.8, 0.99);  // of the ratio; the latter is not well below
  Scenario run = {.used = [=](double t) { return 1000 * ratio * (t < 10 || (t >= 30 && t < 40) ? below : 1.1); },
                  .settings = Only([](AlertRules*) {})};
  run.settings.of_kind[static_cast<size_t>(run.kind)].ratio = ratio;
  const std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE(alerts.size() == (below < 0.9 ? 3 : 1));
  if (alerts.size() == 1) return;
  CHECK(alerts[1].over);
  CHECK(absl::ToDoubleSeconds(alerts[1].t) == Approx(32).margin(1.5));
  CHECK_FALSE(alerts[2].over);
}

TEST_CASE("a ramp through the ratio does not wait for its default time") {
  const Scenario run = {.used = [](double t) { return std::min(100 + 450 * t, 1000.0); },
                        .until = 2,
                        .settings = Only([](AlertRules* rules) { rules->ratio = 0.8; })};
  const std::vector<Alert> alerts = AlertsOf(run);
  REQUIRE(alerts.size() == 1);
  CHECK(alerts[0].t < absl::Seconds(1.9));
}

TEST_CASE("limits that change") {
  Scenario run = {.used = [](double t) { return t < 10 ? 500.0 : 950.0; }, .until = 40};
  SECTION("one that is raised ends its alert") {
    run.resized_from = 20;
    run.resized_to = 4000;
  }
  SECTION("one that can't be read any more ends its alert") { run.unread_from = 20; }
  SECTION("one that is lifted does, too") { run.lifted_from = 20; }
  const std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE(alerts.size() >= 2);
  CHECK_FALSE(alerts.front().over);
  CHECK(alerts.back().over);
  CHECK(absl::ToDoubleSeconds(alerts.back().t) == Approx(21).margin(1.5));
  CHECK(absl::EndsWith(alerts.back().text, run.lifted_from < 60   ? ": the limit is gone"
                                           : run.unread_from < 60 ? ": what is used can't be read any more"
                                                                  : "near its limit, 950.0 MiB of 3.9 GiB used"));
}

TEST_CASE("an alert does not end because the target that meets it is exiting") {
  const Scenario run = {
      .used = [](double t) { return t < 10 ? 500.0 : 950.0; }, .until = 40, .exits = true, .unread_from = 20};
  const std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE_FALSE(alerts.empty());
  CHECK_FALSE(absl::StrContains(Told(alerts), "gone"));
  CHECK_FALSE(absl::StrContains(Told(alerts), "can't be read"));
}

TEST_CASE("what has ended is said by its rule") {
  const auto text = [](AlertRule rule, double per_second) {
    const Alert alert = {.rule = rule,
                         .over = true,
                         .kind = LimitKind::kCgroupV2,
                         .name = "/job",
                         .limit = 500 * kMb,
                         .used = 475 * kMb};
    return AlertText(alert, per_second, std::nullopt, RunModel());
  };
  CHECK(text(AlertRule::kRatio, 0) == "cgroup /job: no longer near its limit, 475.0 MiB of 500.0 MiB used");
  CHECK(text(AlertRule::kEta, 0) == "cgroup /job: no longer filling up, 475.0 MiB of 500.0 MiB used");
  CHECK(text(AlertRule::kEta, 1000) == "cgroup /job: no longer filling up so fast, 475.0 MiB of 500.0 MiB used");
}

TEST_CASE("a limit that is lowered below what is used is told") {
  const Scenario run = {.used = [](double) { return 500.0; }, .resized_from = 10, .resized_to = 520};
  const std::vector<Alert> alerts = AlertsOf(run);
  REQUIRE(alerts.size() == 1);
  CHECK(alerts[0].rule == AlertRule::kRatio);
}

TEST_CASE("rules that are off say nothing, and nobody looks") {
  Scenario run = {.used = [](double t) { return std::min(100 + 450 * t, 1000.0); }, .until = 4};
  run.settings = Only([](AlertRules*) {});
  CHECK(AlertsOf(run).empty());
  CHECK(AlertWatch(run.settings).next_look() == absl::InfiniteDuration());
  CHECK(AlertWatch(AlertSettings()).next_look() < absl::InfiniteDuration());
}

TEST_CASE("looks come by what is left and how fast it goes") {
  const auto gap_after = [](const LimitSample& first, const LimitSample& last, const AlertSettings& settings = {}) {
    AlertWatch watch{settings};
    for (int look = 0; look <= 10; ++look) {
      LimitSample now = first;
      now.used += look * (last.used - first.used) / 10;
      watch.Look(absl::Milliseconds(100 * look), {now});
    }
    return absl::ToDoubleSeconds(watch.next_look()) - 1;
  };
  const auto memory = [](uint64_t limit, uint64_t used) {
    return LimitSample{.kind = LimitKind::kCgroupV2, .name = "/job", .limit = limit * kMb, .used = used * kMb};
  };
  CHECK(gap_after(memory(100'000, 1000), memory(100'000, 1000)) == Approx(2));
  CHECK(gap_after(memory(16'000, 1000), memory(16'000, 1000)) == Approx(0.98).margin(0.02));
  CHECK(gap_after(memory(32'000, 17'000), memory(32'000, 17'000)) == Approx(0.49).margin(0.01));  // more than half
  AlertSettings early;
  early.of_kind[static_cast<int>(LimitKind::kCgroupV2)].ratio = 0.1;
  CHECK(gap_after(memory(16'000, 1000), memory(16'000, 1000), early) == Approx(0.49).margin(0.01));
  CHECK(gap_after(memory(500, 100), memory(500, 100)) == Approx(0.1));
  CHECK(gap_after(memory(16'000, 1000), memory(16'000, 9000)) < 0.1);
  const LimitSample files = {.kind = LimitKind::kDescriptors, .name = "RLIMIT_NOFILE", .limit = 1024, .used = 24};
  CHECK(gap_after(files, files) == Approx(0.5));
  const LimitSample none = {.kind = LimitKind::kCgroupV2, .name = "/", .limit = {}, .used = 5};
  CHECK(gap_after(none, none) == Approx(2));
}

TEST_CASE("shared memory names who fills it, and what helps") {
  const Scenario run = {
      .kind = LimitKind::kShm, .limit = 64, .used = [](double t) { return std::min(4 * t, 64.0); }, .until = 16};
  const std::vector<Alert> alerts = AlertsOf(run);
  REQUIRE(!alerts.empty());
  CHECK(alerts[0].index == 1);
  CHECK(alerts[0].cause == "shm");
  CHECK(absl::StrContains(alerts[0].advice, "--shm-size"));
}

TEST_CASE("shared memory of an unknown process is not called outside") {
  const Alert alert = {.kind = LimitKind::kCgroupV2,
                       .name = "/job",
                       .limit = 1000 * kMb,
                       .used = 900 * kMb,
                       .eta = absl::Seconds(9),
                       .cause = "shm"};
  const std::string text = AlertText(alert, 1e7, std::nullopt, RunModel());
  CHECK(absl::StrContains(text, "; what grows is shared memory, in /dev/shm"));
  CHECK(absl::StrContains(AlertAdvice(alert, RunModel()), "keep less in shared memory"));
}

TEST_CASE("a climb that has stopped is no alert, however fast it was") {
  const Scenario run = {
      .used = [](double t) { return std::clamp(100 + 200 * (t - 4), 100.0, 600.0); }, .worker_from = -1, .until = 12};
  const std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  // It may be told while it climbs, not after.
  for (const Alert& alert : alerts) CHECK((alert.over || absl::ToDoubleSeconds(alert.t) < 6.6));
}

TEST_CASE("a target without workers is told early only if it stood still before it grew") {
  const auto [from, started, least] =
      GENERATE(table<double, bool, double>({{4, false, 0.5}, {0, false, 0.1}, {0.5, false, 0.1}, {4, true, 0.03}}));
  const Scenario run = {.used = [from = from](double t) { return std::clamp(100 + 90 * (t - from), 100.0, 1000.0); },
                        .worker_from = -1,
                        .started = started,
                        .until = 10 + from};
  const std::vector<Alert> alerts = AlertsOf(run);
  INFO(Told(alerts));
  REQUIRE(!alerts.empty());
  const double lead = (10 + from - absl::ToDoubleSeconds(alerts[0].t)) / 10;
  CHECK(lead >= least);
  CHECK((lead > 0.3) == (least == 0.5));
}

TEST_CASE("only a worker's new memory may be a worker's leak, and columns help only against counts and hashes") {
  RunModel model;
  model.processes = {{.index = 0, .role = Role::kParent},
                     {.index = 1, .role = Role::kWorker},
                     {.index = 2, .role = Role::kForkserver},
                     {.index = 3, .role = Role::kHelper}};
  const auto advice = [&](int index, const std::string& cause) {
    Alert alert;
    alert.index = index;
    alert.cause = cause;
    return AlertAdvice(alert, model);
  };
  for (int index = -1; index < 4; ++index) {
    INFO(index);
    CHECK(absl::StrContains(advice(index, "new-memory"), "of the worker") == (index == 1));
    CHECK(absl::StrContains(advice(index, "new-memory"), "of the target") == (index == 0));
    CHECK(absl::StrContains(advice(index, "new-memory"), "from item to item") == (index == 1));
  }
  for (const std::string cause : {"refcount", "hash"}) CHECK(absl::StrContains(advice(1, cause), "columns"));
  for (const std::string cause : {"kernel", "allocator", "bytecode", "free", "data", "unknown", "native_refcount"}) {
    INFO(cause);
    CHECK_FALSE(absl::StrContains(advice(1, cause), "columns"));
  }
}

TEST_CASE("a server has no checkpoint and no batches") {
  RunModel model;
  model.processes = {{.index = 0, .role = Role::kParent}, {.index = 1, .role = Role::kWorker}};
  const auto advice = [&](LimitKind kind, const std::string& cause) {
    Alert alert = {.kind = kind, .index = 1, .cause = cause};
    return AlertAdvice(alert, model);
  };
  const auto all = [&] {
    return absl::StrCat(advice(LimitKind::kHost, "refcount"), advice(LimitKind::kHost, "new-memory"),
                        advice(LimitKind::kShm, "shm"), advice(LimitKind::kDescriptors, "descriptors"),
                        advice(LimitKind::kAddressSpace, "new-memory"), advice(LimitKind::kHost, "shm"));
  };
  for (ProcessModel& process : model.processes) process.framework = Framework::kDataLoader;
  for (const char* word : {"checkpoint", "batch", "prefetch_factor", "torch"}) CHECK(absl::StrContains(all(), word));
  for (const Framework other : {Framework::kGunicorn, Framework::kPool, Framework::kExecutor, Framework::kFork}) {
    for (ProcessModel& process : model.processes) process.framework = other;
    for (const char* word : {"checkpoint", "batch", "prefetch_factor", "torch"})
      CHECK_FALSE(absl::StrContains(all(), word));
  }
  model.processes[1].role = Role::kRank;  // as under torchrun
  CHECK(absl::StrContains(all(), "checkpoint"));
}

TEST_CASE("a forked rank is not advised to be one of fewer") {
  RunModel model;
  model.processes = {{.index = 0, .role = Role::kParent}, {.index = 1, .role = Role::kWorker}};
  const auto advice = [&](const std::string& cause) {
    return AlertAdvice({.kind = LimitKind::kHost, .index = 1, .cause = cause}, model);
  };
  const auto causes = {"refcount", "hash", "native_refcount", "data", "malloc_reuse", "other"};
  for (const char* cause : causes) CHECK(absl::StrContains(advice(cause), "use fewer workers"));
  model.processes[1].role = Role::kRank;
  for (const char* cause : causes) CHECK_FALSE(absl::StrContains(advice(cause), "workers"));
  CHECK(absl::EndsWith(advice("refcount"), "; keep the data in columns (numpy, Arrow) instead of Python objects"));
  CHECK(absl::EndsWith(advice("other"), "; see cowprof report: each copies what it inherits"));
}

TEST_CASE("an alert says what the first finding says that fits its limit") {
  Findings findings;
  RunModel model;
  model.processes = {{.index = 0, .role = Role::kParent}, {.index = 1, .role = Role::kWorker}};
  const auto add = [&](const std::string& id) {
    findings.diagnoses.push_back(
        {.id = id, .summary = absl::StrCat("About ", id, "."), .advice = {absl::StrCat("Mend ", id, ".")}});
  };
  for (const char* id : {"cow-refcount", "torch-refcount", "allocator-reuse", "new-memory-growth", "pickled-arguments",
                         "parent-unshare", "trainer-growth", "shm-near-full", "shm-leaked", "fd-exhaustion"})
    add(id);
  findings.diagnoses[0].culprit = {.frame = {"/home/me/train.py", "f", 12}, .type = "str", .share = 0.9};
  findings.headline = {"cow-refcount", "1 of 2 workers ended badly. About cow-refcount."};
  const auto of = [&](LimitKind kind, int index, const std::string& cause) {
    Alert alert = {.kind = kind, .index = index, .cause = cause, .text = "/job full", .advice = "as before"};
    std::vector<Alert> alerts = {alert};
    ExplainAlerts(findings, model, &alerts);
    return alerts[0];
  };
  const Alert copies = of(LimitKind::kHost, 1, "refcount");
  CHECK(copies.diagnosis == "cow-refcount");
  CHECK(copies.headline == findings.headline.sentence);
  CHECK(copies.culprit == findings.diagnoses[0].culprit);
  CHECK(copies.text == "/job full, mostly at train.py:12 in f (str)");
  CHECK(copies.advice == "use fewer workers; then: Mend cow-refcount");
  findings.trains = true;
  CHECK(of(LimitKind::kHost, 1, "refcount").advice ==
        "write a checkpoint now, use fewer workers; then: Mend cow-refcount");
  const Alert leak = of(LimitKind::kCgroupV2, 1, "new-memory");
  CHECK(leak.headline == "About new-memory-growth.");
  CHECK(!leak.culprit);
  CHECK(of(LimitKind::kHost, 1, "native_refcount").diagnosis == "torch-refcount");
  CHECK(of(LimitKind::kHost, 1, "malloc_reuse").diagnosis == "allocator-reuse");
  CHECK(of(LimitKind::kHost, 1, "hash").diagnosis == "cow-refcount");
  CHECK(of(LimitKind::kHost, 0, "refcount").diagnosis == "parent-unshare");
  CHECK(of(LimitKind::kHost, 0, "new-memory").diagnosis == "trainer-growth");
  const Alert by_shm = of(LimitKind::kHost, 1, "shm");
  CHECK(by_shm.diagnosis == "shm-near-full");
  CHECK(by_shm.advice == "as before");  // not a larger /dev/shm
  CHECK(of(LimitKind::kShm, 1, "shm").diagnosis == "shm-near-full");
  CHECK(of(LimitKind::kShm, 1, "shm").advice == "use fewer workers now; then: Mend shm-near-full");
  const auto near_full = absl::c_find_if(findings.diagnoses, [](const auto& one) { return one.id == "shm-near-full"; });
  near_full->advice = {"Memory has no room for a larger one: keep less in it."};
  CHECK(of(LimitKind::kShm, 1, "shm").advice == "Memory has no room for a larger one: keep less in it");
  CHECK(of(LimitKind::kDescriptors, 0, "descriptors").advice == "Mend fd-exhaustion");
  std::erase_if(findings.diagnoses, [](const Diagnosis& one) { return one.id == "shm-near-full"; });
  CHECK(absl::StrContains(of(LimitKind::kHost, 1, "shm").advice, "Mend shm-leaked"));
  // Nothing is found that explains it, or it is over.
  CHECK(of(LimitKind::kHost, 1, "gc_header").diagnosis.empty());
  CHECK(of(LimitKind::kHost, 1, "gc_header").advice == "as before");
  CHECK(of(LimitKind::kHost, -1, "").diagnosis.empty());
  std::vector<Alert> over = {{.over = true, .index = 1, .cause = "refcount"}};
  ExplainAlerts(findings, model, &over);
  CHECK(over[0].diagnosis.empty());
  model.processes[1].role = Role::kRank;
  CHECK(of(LimitKind::kHost, 1, "refcount").advice == "write a checkpoint now; then: Mend cow-refcount");
}

TEST_CASE("a pace that would read as none is left out") {
  Alert alert = {.rule = AlertRule::kRatio, .kind = LimitKind::kDescriptors, .limit = 1000, .used = 960};
  alert.eta = absl::Minutes(4);
  const auto text = [&](double per_second) { return AlertText(alert, per_second, std::nullopt, RunModel()); };
  CHECK(absl::StrContains(text(0.17), "960 of 1,000 used, full in 4 min"));
  CHECK(absl::StrContains(text(1.2), "960 of 1,000 used, +1/s, full in 4 min"));
}

TEST_CASE("growth of a rank or of a trainer below a launcher is explained by a finding about it, not about workers") {
  Findings findings;
  findings.diagnoses = {{.id = "new-memory-growth", .summary = "The workers.", .pids = {1002}},
                        {.id = "cow-refcount", .summary = "Their copies.", .pids = {1002}},
                        {.id = "trainer-growth", .summary = "Rank 0 keeps growing.", .pids = {1001}},
                        {.id = "parent-unshare", .summary = "Rank 0 copies.", .pids = {1001}}};
  RunModel model;
  model.processes = {{.index = 0, .id = {.pid = 1000}, .role = Role::kParent},
                     {.index = 1, .id = {.pid = 1001}, .role = Role::kRank, .leads = true},
                     {.index = 2, .id = {.pid = 1002}, .role = Role::kWorker},
                     {.index = 3, .id = {.pid = 1003}, .role = Role::kRank, .leads = true}};
  const auto of = [&](LimitKind kind, int index, const std::string& cause) {
    std::vector<Alert> alerts = {{.kind = kind, .index = index, .cause = cause}};
    ExplainAlerts(findings, model, &alerts);
    return alerts[0].diagnosis;
  };
  for (const LimitKind kind : {LimitKind::kHost, LimitKind::kAddressSpace}) {
    CHECK(of(kind, 1, "new-memory") == "trainer-growth");
    CHECK(of(kind, 2, "new-memory") == "new-memory-growth");
    CHECK(of(kind, 0, "new-memory").empty());  // what is found is about a rank
    CHECK(of(kind, 3, "new-memory").empty());
  }
  CHECK(of(LimitKind::kHost, 1, "refcount") == "parent-unshare");
  CHECK(of(LimitKind::kHost, 2, "refcount") == "cow-refcount");
  CHECK(of(LimitKind::kHost, 3, "refcount").empty());
}

TEST_CASE("an alert about a hang has nothing of a finding about memory") {
  Findings findings;
  const RunModel model;
  findings.diagnoses = {{.id = "cow-refcount", .summary = "Copies.", .advice = {"Use columns."}},
                        {.id = "fork-hang", .summary = "Worker 1001 can never go on.", .advice = {"Of another."}}};
  findings.diagnoses[0].culprit = {.frame = {"/home/me/train.py", "f", 12}, .type = "str", .share = 0.9};
  std::vector<Alert> alerts = {
      {.rule = AlertRule::kHang, .index = 1, .cause = "lock", .text = "it hangs", .advice = "start workers first"}};
  ExplainAlerts(findings, model, &alerts);
  CHECK(alerts[0].text == "it hangs");
  CHECK(alerts[0].advice == "start workers first");
  CHECK(alerts[0].diagnosis == "fork-hang");
  CHECK(alerts[0].headline == "Worker 1001 can never go on.");
  CHECK(!alerts[0].culprit);
  findings.diagnoses.pop_back();
  alerts[0].diagnosis.clear();
  ExplainAlerts(findings, model, &alerts);
  CHECK(alerts[0].diagnosis.empty());
}

TEST_CASE("memory of somebody else has no culprit") {
  Scenario run = {.used = [](double t) { return std::min(100 + 45 * t, 1000.0); }, .worker_from = -1, .until = 20};
  run.settings = Only([](AlertRules* rules) { rules->ratio = 0.8; });
  const std::vector<Alert> alerts = AlertsOf(run);
  REQUIRE(alerts.size() == 1);
  CHECK(alerts[0].index == -1);
  CHECK(alerts[0].cause.empty());
  CHECK(absl::StrContains(alerts[0].text, "outside the recorded processes"));
  CHECK_FALSE(absl::StrContains(alerts[0].text, "pinned"));
}

TEST_CASE("what may be committed is nobody's in particular, mappings are one process's") {
  RunModel model;
  model.processes = {{.index = 0, .role = Role::kParent}, {.index = 1, .role = Role::kWorker}};
  Alert alert = {
      .rule = AlertRule::kEta, .kind = LimitKind::kCommit, .limit = 1000, .used = 500, .eta = absl::Seconds(9)};
  const auto text = [&] { return AlertText(alert, 10, std::nullopt, model); };
  CHECK(text() ==
        "memory that may be committed (vm.overcommit_memory=2) full in about 9.0 s: 500 B of 1000 B used, +10 B/s");
  CHECK(absl::StrContains(AlertAdvice(alert, model), "start fewer workers"));
  alert.kind = LimitKind::kMappings;
  alert.index = 1;
  alert.cause = "mappings";
  CHECK(absl::EndsWith(text(), "500 of 1,000 used, +10/s; worker 0 grows most: memory mappings"));
  CHECK(absl::StartsWith(AlertAdvice(alert, model), "unmap files"));
  model.processes[1].framework = Framework::kDataLoader;
  CHECK(absl::StrContains(AlertAdvice(alert, model), "file_system sharing"));
}

TEST_CASE("the host's memory may be pinned for CUDA, which is nobody's") {
  RunModel model;
  model.processes = {{.index = 0, .role = Role::kParent}};
  model.fork_hazards[0].last.cuda = true;
  Alert alert = {
      .rule = AlertRule::kEta, .kind = LimitKind::kHost, .limit = 1000, .used = 500, .eta = absl::Seconds(9)};
  const auto text = [&] { return AlertText(alert, 10, std::nullopt, model); };
  CHECK(absl::EndsWith(text(),
                       "; what grows is outside the recorded processes, or pinned memory (pin_memory=True, "
                       "prefetch_factor), which counts for none of them"));
  alert.kind = LimitKind::kCgroupV2;  // whether that counts them is not known
  CHECK(absl::EndsWith(text(), "; what grows is outside the recorded processes"));
  alert.kind = LimitKind::kHost;
  model.fork_hazards[0].last.cuda = false;
  CHECK(absl::EndsWith(text(), "; what grows is outside the recorded processes"));
  model.fork_hazards[0].last.cuda = true;
  alert.index = 0;  // the target grows
  alert.cause = "new-memory";
  CHECK_FALSE(absl::StrContains(text(), "pinned"));
}

}  // namespace cowprof
