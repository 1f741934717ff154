// Whose end the OOM killer is said to have caused, where only a cgroup's count of kills tells.
#include "model/facts/oom_evidence.h"

#include <signal.h>

#include <catch2/catch.hpp>

#include "builders.h"

namespace cowprof {
namespace {

LimitSample Group(uint64_t kills, const char* name = "/job") {
  LimitSample limit = {LimitKind::kCgroupV2, name, 1000, 900};
  limit.kills = limit.failures = limit.ooms = kills;
  return limit;
}

Event End(int index, std::optional<int> status) { return {.index = index, .what = ProcessExited{.status = status}}; }

}  // namespace

TEST_CASE("a process that is killed as its cgroup counts a kill was the OOM killer's victim") {
  const std::vector<Event> victims = OomVictims({Group(3)}, {Group(4)}, {End(1, 0), End(2, SIGKILL)});
  REQUIRE(victims.size() == 1);
  CHECK(victims[0].index == 2);
  CHECK(victims[0].As<OomVictim>()->limit->name == "/job");
}

TEST_CASE("without a new kill, without a limit, or of an unknown end, nothing is said") {
  CHECK(OomVictims({Group(4)}, {Group(4)}, {End(2, SIGKILL)}).empty());
  CHECK(OomVictims({}, {Group(4)}, {End(2, SIGKILL)}).empty());
  CHECK(OomVictims({Group(3, "/other")}, {Group(4)}, {End(2, SIGKILL)}).empty());
  CHECK(OomVictims({Group(3)}, {Group(4)}, {End(2, std::nullopt), End(3, SIGTERM)}).empty());
}

TEST_CASE("where more were killed than the cgroup counted, it is not known who") {
  CHECK(OomVictims({Group(3)}, {Group(4)}, {End(1, SIGKILL), End(2, SIGKILL)}).empty());
  CHECK(OomVictims({Group(3)}, {Group(5)}, {End(1, SIGKILL), End(2, SIGKILL)}).size() == 2);
}

TEST_CASE(
    "the limit that was met is that of the cgroup that counted a failure, not of the one that the victim was in") {
  LimitSample inner = Group(3, "/job/step"), outer = Group(7);
  const std::vector<LimitSample> before = {inner, outer};
  inner.kills = 4;
  ++*outer.failures;
  ++*outer.ooms;
  REQUIRE(OomVictims(before, {inner, outer}, {End(1, SIGKILL)}).size() == 1);
  CHECK(OomVictims(before, {inner, outer}, {End(1, SIGKILL)})[0].As<OomVictim>()->limit->name == "/job");
  outer = Group(7);
  REQUIRE(OomVictims(before, {inner, outer}, {End(1, SIGKILL)}).size() == 1);
  CHECK_FALSE(OomVictims(before, {inner, outer}, {End(1, SIGKILL)})[0].As<OomVictim>()->limit);
}

TEST_CASE("kills that an outer cgroup counts may be of another of its children, but for v1's, which counts its own") {
  LimitSample inner = Group(3, "/job/step"), outer = Group(7);
  const std::vector<LimitSample> before = {inner, outer};
  ++*outer.kills;
  ++*outer.ooms;
  CHECK(OomVictims(before, {inner, outer}, {End(1, SIGKILL)}).empty());
  CHECK(OomVictims(before, {outer}, {End(1, SIGKILL)}).empty());  // the inner one was removed
  CHECK(OomVictims({Group(7)}, {inner, outer}, {End(1, SIGKILL)}).empty());
  inner.kind = outer.kind = LimitKind::kCgroupV1;
  LimitSample outer_before = outer;
  --*outer_before.kills;
  CHECK(OomVictims({inner, outer_before}, {inner, outer}, {End(1, SIGKILL)}).size() == 1);
}

TEST_CASE("a cgroup that only reclaims at its limit is not blamed for a kill by the host") {
  const auto limit_of = [](const LimitSample& before, const LimitSample& now, uint64_t host_used) {
    const LimitSample host = {LimitKind::kHost, "MemTotal+SwapTotal", 10'000, host_used};
    const std::vector<Event> victims = OomVictims({before, host}, {now, host}, {End(1, SIGKILL)});
    REQUIRE(victims.size() == 1);
    return victims[0].As<OomVictim>()->limit;
  };
  LimitSample before = Group(3), now = Group(4);
  CHECK(limit_of(before, now, 9'900));
  now.ooms = before.ooms;  // page cache was reclaimed
  CHECK_FALSE(limit_of(before, now, 9'900));
  // v1 counts no such thing: what is left besides page cache tells, where the host may have been full.
  now.kind = before.kind = LimitKind::kCgroupV1;
  now.ooms = before.ooms = std::nullopt;
  CHECK(limit_of(before, now, 9'900));
  now.used = before.used = 500;
  CHECK_FALSE(limit_of(before, now, 9'900));
  CHECK(limit_of(before, now, 5'000));  // it grew between the looks
}

TEST_CASE("all that are killed at once get the same figures; the target has grown since its first worker") {
  const auto row = [](int index, uint64_t anon_pages, uint64_t copies) {
    ProcessSample one = RowWithCopies(index, copies);
    one.proc.anon_pages = anon_pages;
    return one;
  };
  RunModel model;
  Append({.t = absl::Seconds(1), .events = {Started(0, -1)}, .processes = {row(0, 1000, 0)}}, &model);
  Append({.t = absl::Seconds(2),
          .events = {Started(1, 0), Started(2, 0)},
          .processes = {row(0, 3000, 0), row(1, 20, 10), row(2, 20, 10)}},
         &model);
  const OomVictim chosen = {LimitSample{LimitKind::kCgroupV2, "/job", 1 << 30, 1 << 30}};
  Append({.t = absl::Seconds(3),
          .events = {{.t = absl::Seconds(3), .index = 1, .what = chosen},
                     {.t = absl::Seconds(3), .index = 2, .what = chosen}},
          .processes = {row(0, 4000, 0), row(1, 20, 30), row(2, 20, 40)}},
         &model);
  REQUIRE(model.processes[1].oom);
  REQUIRE(model.processes[2].oom);
  for (const int victim : {1, 2}) {
    const OomKill& kill = *model.processes[victim].oom;
    CHECK(kill.workers == 2);
    CHECK(kill.top_contributor == 0);
    CHECK(kill.top_contributor_bytes == 1000 * 4096);
    CHECK(kill.workers_grown_bytes == model.processes[1].oom->workers_grown_bytes);
    CHECK(kill.recorded_bytes == model.processes[1].oom->recorded_bytes);
  }
}

// Below a shell or a launcher.
TEST_CASE("a program that was started by fork and exec has grown since its first worker; without workers, by all") {
  const auto row = [](int index, uint64_t anon_pages, uint64_t copies) {
    ProcessSample one = RowWithCopies(index, copies);
    one.proc.anon_pages = anon_pages;
    return one;
  };
  const OomVictim chosen = {LimitSample{LimitKind::kCgroupV2, "/job", 1 << 30, 1 << 30}};
  const Event execed = {.index = 1, .what = ProcessExeced{.comm = "python3", .command = "python3 train.py"}};
  Event worker = Started(2, 1);
  worker.t = absl::Seconds(2.5);
  worker.As<ProcessStarted>()->space = 1;
  RunModel model;
  Append({.t = absl::Seconds(1),
          .events = {Started(0, -1, "bash train.sh"), Started(1, 0)},
          .processes = {row(0, 100, 0), row(1, 100, 20)}},
         &model);
  // Before it forks it writes to pages of files.
  Append({.t = absl::Seconds(2), .events = {execed}, .processes = {row(1, 50'000, 45'000)}}, &model);
  RunModel alone = model;
  Append({.t = absl::Seconds(3), .events = {worker}, .processes = {row(1, 50'000, 45'000), row(2, 50'000, 10)}},
         &model);
  Append({.t = absl::Seconds(4),
          .events = {{.t = absl::Seconds(4), .index = 2, .what = chosen}},
          .processes = {row(1, 50'100, 45'000), row(2, 50'000, 40'000)}},
         &model);
  REQUIRE(model.processes[1].private_bytes > 40'000 * 4096);  // its own again, since its worker copied it
  REQUIRE(model.processes[2].oom);
  CHECK(model.processes[2].oom->top_contributor == 2);
  CHECK(model.processes[2].oom->top_contributor_bytes == 40'000 * 4096);
  Append({.t = absl::Seconds(3),
          .events = {{.t = absl::Seconds(3), .index = 1, .what = chosen}},
          .processes = {row(1, 50'000, 45'000)}},
         &alone);
  REQUIRE(alone.processes[1].oom);
  CHECK(alone.processes[1].oom->top_contributor == 1);
  CHECK(alone.processes[1].oom->top_contributor_bytes == 50'000 * 4096);
}

// Ranks that a launcher started, each with workers of its own: what a rank shares with them is in memory once per rank.
TEST_CASE("what processes share counts once for each address space") {
  RunModel model;
  Append({.t = absl::Seconds(1),
          .events = {Started(0, -1), Started(1, 0), Started(2, 0)},
          .processes = {RowWithCopies(0, 0), RowWithCopies(1, 0), RowWithCopies(2, 0)}},
         &model);
  for (ProcessModel& process : model.processes) {
    process.private_bytes = 100;
    process.still_shared_bytes = process.index * 1000;
  }
  ProcessModel worker = model.processes[2];  // of rank 2
  worker.index = 3;
  worker.still_shared_bytes = 1500;
  model.processes.push_back(worker);
  const OomVictim chosen = {LimitSample{LimitKind::kCgroupV2, "/job", 1 << 30, 1 << 30}};
  model.processes[1].oom_victim = true;
  AppendOomKills({.events = {{.t = absl::Seconds(1), .index = 1, .what = chosen}}}, {}, &model);
  REQUIRE(model.processes[1].oom);
  CHECK(model.processes[1].oom->recorded_bytes == 4 * 100 + 1000 + 2000);
}

}  // namespace cowprof
