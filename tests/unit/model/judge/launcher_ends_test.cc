// A launcher that ended first is named first, with its cause, and what its end took along is not blamed.
#include "model/judge/launcher_ends.h"

#include <signal.h>

#include <catch2/catch.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "builders.h"
#include "model/judge/fleet.h"
#include "model/judge/run_figures.h"

namespace cowprof {
namespace {

constexpr pid_t kLauncher = 1000, kStranger = 4242;

Event Sent(int index, absl::Duration t, pid_t sender, int signal = SIGKILL) {
  return {.t = t,
          .index = index,
          .what = SignalSent{.signal = signal, .code = SI_USER, .sender = sender, .sender_comm = "bash"}};
}

Event LightningIs(int index) {
  const auto rank = static_cast<uint64_t>(index);
  return {.index = index,
          .what = RankFound{{.source = RankSource::kLightning, .rank = rank, .local_rank = rank, .job_id = ""}}};
}

// The launcher 0 with the ranks 1 and 2, each with a worker, 3 and 4; then `ends`.
struct Job {
  std::vector<Sample> samples;
  Run whole;
  std::vector<RanksApart::Rank> ranks;
  Fleet fleet;
  std::string headline;

  // `lightning`: the launcher is a rank, with the worker 5.
  explicit Job(std::vector<Event> ends, bool lightning = false) {
    Sample start = {.t = absl::Seconds(1)};
    for (const int parent : {-1, 0, 0, 1, 2}) {
      const int index = static_cast<int>(start.processes.size());
      Event started = Started(index, parent);
      if (index > 2) started.As<ProcessStarted>()->space = parent;
      start.events.push_back(started);
      if (index == 1 || index == 2)
        start.events.push_back(
            {.index = index,
             .what = RankFound{{.source = RankSource::kTorch, .rank = static_cast<uint64_t>(index - 1)}}});
      start.processes.push_back(RowWithCopies(index, 0));
    }
    if (lightning) {
      start.events.push_back({.index = 0, .what = PythonFound{.version = "3.11.2"}});
      start.events.push_back(LightningIs(0));
      start.events.push_back(LightningIs(1));
      start.events.push_back(LightningIs(2));
      start.events.push_back(Started(5, 0));
      start.events.back().As<ProcessStarted>()->space = 0;
      start.processes.push_back(RowWithCopies(5, 0));
    }
    samples = {start, {.t = absl::Seconds(10), .events = std::move(ends)}};
    RanksApart apart;
    for (const Sample& sample : samples) {
      apart.Add(sample);
      Append(sample, &whole);
    }
    headline = Judge(whole).headline.sentence;
    std::vector<FleetRow> rows;
    ranks = apart.Of(whole.model);
    for (const RanksApart::Rank& rank : ranks) rows.push_back(RowOfRank(rank));
    REQUIRE(rows.size() == (lightning ? 3 : 2));
    fleet = FleetOf(rows);
  }
  FleetRow RowOfRank(const RanksApart::Rank& rank) const {
    const bool target = rank.index == 0;
    Run part = {
        .model = {.is_part = true, .target_is_rank = target, .target_is_other_rank = ranks[0].index == 0 && !target}};
    for (const Sample& sample : samples) Append(Without(rank.others, sample), &part);
    FleetRow row = RowOf("launcher.json", part, Judge(part), true);
    row.host = "a";
    row.boot_id = "boot";
    row.boot = absl::Hours(1);
    return row;
  }
  std::vector<std::string> Order() const {
    std::vector<std::string> order;
    for (const auto& [row, death] : fleet.deaths) order.push_back(death.who);
    return order;
  }
};

const absl::Duration kT = absl::Seconds(5);
const absl::Duration kMs = absl::Milliseconds(1);

}  // namespace

TEST_CASE("a launcher that was killed is named first; ranks that its death killed are not blamed") {
  const Job job({Sent(0, kT, kStranger), Exited(0, SIGKILL, kT + kMs), Sent(1, kT + kMs, kLauncher),
                 Sent(2, kT + kMs, kLauncher), Exited(2, SIGKILL, kT + 2 * kMs), Exited(1, SIGKILL, kT + 3 * kMs)});
  CHECK(job.headline == "The launcher 1000 was killed by SIGKILL from bash (pid 4242), and 2 processes with it.");
  CHECK(absl::StartsWith(job.fleet.sentence, "The launcher (1000) was the first to end badly 5.0 s"));
  CHECK(
      absl::StrContains(job.fleet.sentence, "killed by SIGKILL from bash (pid 4242). 2 processes of its ranks ended"));
  CHECK_FALSE(absl::StrContains(job.fleet.sentence, "The next was"));
  CHECK(job.Order() == std::vector<std::string>{"launcher (1000)", "rank 1 (1002)", "rank 0 (1001)"});
  CHECK(job.fleet.deaths[0].second.of_launcher);
  CHECK(job.fleet.deaths[1].second.with_launcher);
}

TEST_CASE("of a process group that is killed the launcher is named first, in whatever order its members end") {
  std::vector<Event> ends;
  for (const int index : {3, 4, 2, 1, 0}) ends.push_back(Sent(index, kT + (5 - index) * kMs / 10, kStranger));
  for (const int index : {3, 1, 4, 2, 0}) ends.push_back(Exited(index, SIGKILL, kT + (6 - index) * kMs));
  const Job job(ends);
  CHECK(job.headline == "The launcher 1000 was killed by SIGKILL from bash (pid 4242), and 4 processes with it.");
  CHECK(job.fleet.deaths.size() == 5);
  CHECK(job.Order().front() == "launcher (1000)");
  CHECK(job.fleet.first->with_it == 4);
}

TEST_CASE("a launcher that is a rank itself is called a trainer, and its death is told once") {
  const Job job({Sent(0, kT, kStranger), Exited(0, SIGKILL, kT + kMs), Sent(1, kT + kMs, kLauncher),
                 Exited(1, SIGKILL, kT + 2 * kMs)},
                true);
  CHECK(job.headline == "The trainer 1000 was killed by SIGKILL from bash (pid 4242), and 1 process with it.");
  CHECK(job.Order() == std::vector<std::string>{"rank 0 (1000)", "rank 1 (1001)"});
  CHECK_FALSE(job.fleet.deaths[0].second.with_launcher);
  CHECK_FALSE(job.fleet.deaths[0].second.of_launcher);
  CHECK(job.fleet.deaths[0].first == 0);
  CHECK(absl::StartsWith(job.fleet.sentence, "In rank 0, rank 0 (1000) was the first to end badly 5.0 s"));
  CHECK(absl::StrContains(job.fleet.sentence, "(pid 4242). 1 process ended together with it."));
  CHECK(
      absl::EndsWith(job.fleet.sentence, "About rank 0: The trainer 1000 was killed by SIGKILL from bash (pid 4242)."));
  CHECK(job.fleet.rows[0].members[0].label == "worker of rank 0 (1005)");
  for (const FleetRow& row : job.fleet.rows) {
    CHECK(absl::StartsWith(row.headline.sentence, "The trainer 1000 was killed by SIGKILL from bash (pid 4242)"));
    for (const Death& death : row.launchers) CHECK(death.who == "rank 0 (1000)");
  }
  std::vector<Count> ranks;
  std::vector<uint64_t> workers;
  for (const FleetRow& row : job.fleet.rows) {
    ranks.push_back(row.rank);
    workers.push_back(row.workers);
  }
  CHECK(ranks == std::vector<Count>{0u, 1u, 2u});
  CHECK(workers == std::vector<uint64_t>{1, 1, 1});  // of each its own
  CHECK(Job({Exited(0, 1 << 8, kT)}, true).headline ==
        "The trainer 1000 ended with exit 1, before the other ranks ended.");
}

TEST_CASE("a launcher that is a rank itself has failed, also if it outlived the others") {
  const auto of = [](const std::vector<Event>& ends) { return Job(ends, /*lightning=*/true).headline; };
  CHECK(of({Exited(1, 0, kT), Exited(2, 0, kT), Exited(0, 1 << 8, kT + kMs)}) == "The trainer 1000 ended with exit 1.");
  CHECK(of({Sent(1, kT, kLauncher), Exited(1, SIGKILL, kT), Sent(2, kT, kLauncher), Exited(2, SIGKILL, kT),
            Exited(0, 1 << 8, kT + kMs)}) == "The trainer 1000 ended with exit 1, and 2 processes with it.");
  // It is one of three ranks.
  CHECK(of({Exited(1, 1 << 8, kT)}) == "1 of 3 ranks ended badly: rank 1 (pid 1001) ended with exit 1.");
  CHECK(of({Exited(1, 1 << 8, kT), Exited(0, 1 << 8, kT + kMs)}) ==
        "2 of 3 ranks ended badly: rank 1 (pid 1001) ended with exit 1, and 1 more.");
  CHECK(of({Exited(0, 1 << 8, kT), Exited(1, 1 << 8, kT + kMs)}) ==
        "The trainer 1000 ended with exit 1, before the other ranks ended. "
        "1 of 2 other ranks ended badly: rank 1 (pid 1001) ended with exit 1.");
}

TEST_CASE("a launcher that is a rank itself has its memory in its own row only") {
  const Job job({Exited(0, 0, kT)}, true);
  Sample sample = job.samples[0];
  sample.events.push_back({.index = 0, .what = StartMethodsSeen{}});
  sample.events.push_back({.index = 0, .what = HangsSeen{}});
  sample.copy_sites = {{.index = 0}, {.index = 1}, {.index = 2}};
  sample.growth = {{.index = 0}, {.index = 1}, {.index = 2}};
  for (const RanksApart::Rank& rank : job.ranks) {
    const Sample part = Without(rank.others, sample);
    REQUIRE(part.copy_sites.size() == 1);
    CHECK(part.copy_sites[0].index == rank.index);
    REQUIRE(part.growth.size() == 1);
    CHECK(part.growth[0].index == rank.index);
    CHECK(part.processes.size() == 2);
    CHECK(part.processes[0].index == rank.index);
    CHECK(part.events.back().Is<HangsSeen>() == (rank.index == 0));
    const auto is_look = [](const Event& event) { return event.Is<StartMethodsSeen>(); };
    CHECK(absl::c_any_of(part.events, is_look) == (rank.index == 0));
    CHECK(part.events.front().Is<ProcessStarted>());
    CHECK(part.events.front().index == 0);
    CHECK(Without(rank.others, {Alert{.index = 0}}).size() == (rank.index == 0 ? 1 : 0));
  }
}

TEST_CASE("a rank that was killed before its launcher comes first, whoever sent both signals") {
  const Job job({Sent(4, kT - absl::Seconds(1), kStranger), Exited(4, SIGKILL, kT - absl::Seconds(1)),
                 Sent(0, kT, kStranger), Exited(0, SIGKILL, kT)});
  CHECK(job.Order() == std::vector<std::string>{"worker of rank 1 (1004)", "launcher (1000)"});
  CHECK(absl::StartsWith(job.fleet.sentence, "In rank 1, worker of rank 1 (1004) was the first to end badly"));
  CHECK(job.headline ==
        "1 of 2 workers ended badly: worker 1004 was killed by SIGKILL from bash (pid 4242). "
        "The launcher 1000 was killed by SIGKILL from bash (pid 4242).");
  CHECK_FALSE(job.fleet.deaths[0].second.with_launcher);
}

TEST_CASE("the death that stands in the way of a comparison is the first, not that of the lowest index") {
  const Job job({Sent(4, kT, kStranger), Exited(4, SIGKILL, kT), Exited(1, 1 << 8, kT + absl::Seconds(2))});
  CHECK(FiguresOf("launcher.json", job.whole, Judge(job.whole), true).death ==
        "worker 1004: killed by SIGKILL from bash (pid 4242)");
  const auto death = [](const std::vector<Event>& ends, bool lightning = false) {
    const Job job(ends, lightning);
    return FiguresOf("launcher.json", job.whole, Judge(job.whole), true).death;
  };
  CHECK(death({Exited(1, 3 << 8, kT), Exited(0, 1 << 8, kT + kMs)}) == "rank 0 (pid 1001): exit 3");
  CHECK(death({Exited(1, 3 << 8, kT), Exited(0, 0, kT + kMs)}) == "rank 0 (pid 1001): exit 3");
  CHECK(death({Exited(0, 130 << 8, kT)}) == "launcher 1000: exit 130");
  CHECK(death({Exited(0, 1 << 8, kT)}, true) == "trainer 1000: exit 1");
}

TEST_CASE("ranks that fail after the launcher's death follow it") {
  const Job job({Sent(0, kT, kStranger), Exited(0, SIGKILL, kT), Exited(1, 1 << 8, kT + absl::Seconds(2))});
  CHECK(job.Order() == std::vector<std::string>{"launcher (1000)", "rank 0 (1001)"});
  CHECK(absl::StrContains(job.fleet.sentence, "The next was one of rank 0, 2.0 s later."));
}

TEST_CASE("a launcher that was OOM-killed is named with its limit") {
  const LimitSample limit = {.kind = LimitKind::kCgroupV2, .name = "/job", .limit = 1 << 30, .used = 1 << 30};
  const Job job({{.t = kT, .index = 0, .what = OomVictim{limit}},
                 Exited(0, SIGKILL, kT),
                 Sent(1, kT, kLauncher),
                 Exited(1, SIGKILL, kT + kMs)});
  CHECK(absl::StartsWith(job.headline, "The kernel's OOM killer killed launcher 1000: cgroup /job hit its limit"));
  CHECK(absl::StrContains(job.fleet.sentence, "The launcher (1000) was the first to end badly"));
  CHECK(absl::StrContains(job.fleet.sentence, "the OOM killer, limit of cgroup /job. 1 process of its ranks ended"));
  CHECK(absl::EndsWith(job.fleet.sentence, "cgroup /job hit its limit of 1.0 GiB."));
}

TEST_CASE("a launcher's error status counts only if its ranks did not end first; a request to end never does") {
  const Job passed_on({Exited(1, 3 << 8, kT), Exited(2, 0, kT), Exited(0, 3 << 8, kT + kMs)});
  CHECK(passed_on.Order() == std::vector<std::string>{"rank 0 (1001)"});
  const Job crashed({Exited(0, 1 << 8, kT)});
  CHECK(crashed.headline == "The launcher 1000 ended with exit 1, before its ranks ended.");
  CHECK(crashed.Order() == std::vector<std::string>{"launcher (1000)"});
  const Job asked({Sent(0, kT, kStranger, SIGTERM), Exited(0, SIGTERM, kT)});
  CHECK(asked.fleet.deaths.empty());
  CHECK_FALSE(absl::StrContains(asked.headline, "launcher"));
  // Ctrl-C ends a wrapper at once, its ranks later.
  for (const bool lightning : {false, true}) {
    const Job aborted({Sent(0, kT, kStranger, SIGINT), Exited(0, 1 << 8, kT + kMs)}, lightning);
    CHECK(aborted.fleet.deaths.empty());
    CHECK_FALSE(absl::StrContains(aborted.headline, "ended with"));
  }
}

TEST_CASE("ranks that ended badly before their launcher are counted, the first is named") {
  const Job killed({Sent(2, kT, kStranger), Exited(2, SIGKILL, kT), Sent(1, kT + kMs, kLauncher, SIGTERM),
                    Exited(1, SIGTERM, kT + kMs), Exited(0, 1 << 8, kT + 2 * kMs)});
  CHECK(killed.headline == "1 of 2 ranks ended badly: rank 1 (pid 1002) was killed by SIGKILL from bash (pid 4242).");
  const Job failed({Exited(1, 1 << 8, kT), Exited(2, 3 << 8, kT - kMs), Exited(0, 1 << 8, kT + kMs)});
  CHECK(failed.headline == "2 of 2 ranks ended badly: rank 1 (pid 1002) ended with exit 3, and 1 more.");
  // As they were asked to, or by their launcher.
  const Job asked({Sent(1, kT, kLauncher, SIGTERM), Exited(1, 1 << 8, kT), Sent(2, kT, kLauncher),
                   Exited(2, SIGKILL, kT), Exited(0, 0, kT + kMs)});
  CHECK_FALSE(absl::StrContains(asked.headline, "ended badly"));
  CHECK(asked.fleet.deaths.empty());
}

TEST_CASE("ranks that torchrun starts anew are counted with how many there were at a time") {
  std::vector<Event> ends = {Exited(1, 1 << 8, kT), Sent(2, kT, kLauncher, SIGTERM), Exited(2, SIGTERM, kT + kMs)};
  for (const int index : {5, 6}) {
    ends.push_back(Started(index, 0));
    ends.back().t = kT + absl::Seconds(1);
    const auto rank = static_cast<uint64_t>(index - 5);
    ends.push_back({.index = index, .what = RankFound{{.source = RankSource::kTorch, .rank = rank}}});
    ends.back().t = kT + absl::Seconds(1);
  }
  CHECK(Job(ends).headline == "1 of 4 ranks (2 at a time) ended badly: rank 0 (pid 1001) ended with exit 1.");
}

TEST_CASE("each of nested launchers is outlived by the last rank below it") {
  RunModel model;
  const auto add = [&](int parent, Role role, std::optional<absl::Duration> ended) {
    ProcessModel process = {.index = static_cast<int>(model.processes.size()), .parent = parent, .role = role};
    process.ended = ended;
    if (ended) process.exit = Exit{.code = 1};
    model.processes.push_back(process);
  };
  add(-1, Role::kOther, absl::Seconds(6));
  add(0, Role::kOther, absl::Seconds(5));  // its ranks end before it
  add(0, Role::kOther, absl::Seconds(5));
  add(1, Role::kRank, absl::Seconds(4));
  add(1, Role::kRank, absl::Seconds(3));
  add(2, Role::kRank, absl::Seconds(3));
  add(2, Role::kRank, {});
  std::vector<int> outlived;
  for (const LauncherEnd& end : LauncherEndsIn(model, Findings{})) outlived.push_back(end.process->index);
  CHECK(outlived == std::vector<int>{2, 0});
  model.processes[3].ended = absl::Seconds(7);
  outlived.clear();
  for (const LauncherEnd& end : LauncherEndsIn(model, Findings{})) outlived.push_back(end.process->index);
  CHECK(outlived == std::vector<int>{1, 2, 0});
}

TEST_CASE("a rank that was recorded apart ended with the launcher of another recording of the same boot") {
  const std::vector<Event> ends = {Sent(0, kT, kStranger), Exited(0, SIGKILL, kT + kMs), Sent(1, kT, kStranger),
                                   Exited(1, SIGKILL, kT)};
  const Job job(ends);
  // The recording of rank 0 began 3 s later, so that all happened 3 s sooner in it.
  FleetRow apart = job.fleet.rows[0];
  apart.path = "rank-0.json";
  apart.launchers.clear();
  apart.started += absl::Seconds(3);
  *apart.boot += absl::Seconds(3);
  for (Death& death : apart.deaths) {
    death.t -= absl::Seconds(3);
    death.sent->t -= absl::Seconds(3);
    death.text = "killed by SIGKILL from bash (pid 4242)";
  }
  FleetRow other_boot = apart;
  const auto first_of = [&](const FleetRow& row) {
    return FleetOf({row, job.fleet.rows[1]}).deaths.front().second.who;
  };
  CHECK(first_of(apart) == "launcher (1000)");
  other_boot.boot_id = "other";
  other_boot.started -= absl::Seconds(3);
  CHECK(first_of(other_boot) == "rank 0 (1001)");
}

}  // namespace cowprof
