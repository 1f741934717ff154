// Several recordings side by side: the order of deaths by the right clock, rows that are there twice, who is unlike the
// rest, and the ranks of one recording apart.
#include "model/judge/fleet.h"

#include <catch2/catch.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "builders.h"
#include "random_recording.h"

namespace cowprof {
namespace {

const absl::Time kNoon = absl::FromUnixSeconds(1'800'000'000);

FleetRow Row(uint64_t rank, const std::string& host, absl::Duration started = {}) {
  FleetRow row = {.path = absl::StrCat("rank-", rank, ".json"),
                  .host = host,
                  .boot_id = "boot of " + host,
                  .rank = rank,
                  .process = {static_cast<pid_t>(100 + rank), 1},
                  .started = kNoon + started,
                  .boot = absl::Hours(1) + started,
                  .duration = absl::Minutes(10),
                  .complete = true,
                  .workers = 2,
                  .copied_bytes = 100 << 20,
                  .harm = Harm::kMemory,
                  .headline = {"cow-refcount", "Reading copied."}};
  row.peak.bytes = 200 << 20;
  return row;
}

FleetRow Dead(FleetRow row, absl::Duration t) {
  row.deaths.push_back({t, "worker 0", "killed by SIGKILL"});
  return row;
}

bool Says(const std::vector<std::string>& lines, const char* text) {
  return absl::c_any_of(lines, [&](const std::string& line) { return absl::StrContains(line, text); });
}

}  // namespace

TEST_CASE("who died first is told by the time since boot on one host, by the wall clock on two") {
  // The wall clock of the host was set back by an hour before the second recorder started.
  FleetRow later = Dead(Row(1, "a", absl::Minutes(1)), absl::Seconds(5));
  later.started -= absl::Hours(1);
  const Fleet one_host = FleetOf({Dead(Row(0, "a"), absl::Seconds(50)), later});
  REQUIRE(one_host.first);
  CHECK(one_host.rows[one_host.first->row].rank == 0);
  CHECK(one_host.first->until_next == absl::Seconds(15));
  CHECK_FALSE(one_host.first->undecided);
  CHECK(Says(one_host.notes, "was moved by"));

  const Fleet two =
      FleetOf({Dead(Row(0, "a"), absl::Seconds(50)), Dead(Row(1, "b", absl::Seconds(30)), absl::Seconds(5))});
  REQUIRE(two.first);
  CHECK(two.rows[two.first->row].rank == 1);
  CHECK(absl::StartsWith(two.sentence, "In rank 1 on b, worker 0 was the first to end badly 5.0 s"));
  CHECK(absl::StrContains(two.sentence, "15.0 s later"));
}

TEST_CASE("all deaths are in order, those of one host by the time since boot") {
  FleetRow later = Dead(Row(1, "a", absl::Minutes(1)), absl::Seconds(5));
  later.started -= absl::Hours(1);
  const Fleet fleet = FleetOf({Dead(Dead(Row(0, "a"), absl::Seconds(50)), absl::Seconds(70)), later,
                               Dead(Row(2, "b", absl::Seconds(10)), absl::Seconds(58))});
  std::vector<size_t> rows;
  for (const auto& [row, death] : fleet.deaths) rows.push_back(row);
  CHECK(rows == std::vector<size_t>{0, 1, 2, 0});
  REQUIRE(fleet.begins.size() == 3);
  CHECK(fleet.begins[1] == kNoon + absl::Minutes(1));
  CHECK(FleetOf({Dead(Row(0, "a"), absl::Seconds(1)), Dead(Row(0, "a"), absl::Seconds(1))}).deaths.size() == 1);
}

TEST_CASE("two recordings are one job if they ran together and no rank is in both; otherwise they are two runs") {
  const auto one = [](FleetRow a, FleetRow b) {
    CHECK(AreOneJob({a}, {b}) == AreOneJob({b}, {a}));
    return AreOneJob({a}, {b});
  };
  CHECK(one(Row(0, "a"), Row(1, "a")));
  CHECK(one(Row(0, "a"), Row(1, "b", absl::Minutes(9))));
  CHECK_FALSE(one(Row(0, "a"), Row(1, "a", absl::Minutes(10))));
  CHECK_FALSE(one(Row(0, "a"), Row(0, "b")));
  CHECK_FALSE(AreOneJob({Row(0, "a"), Row(1, "a")}, {Row(1, "b"), Row(2, "b")}));
  CHECK(AreOneJob({Row(0, "a"), Row(1, "a")}, {Row(2, "b"), Row(3, "b")}));
  CHECK_FALSE(AreOneJob({}, {Row(0, "a")}));
  FleetRow other_job = Row(1, "a");
  other_job.job_id = "other";
  CHECK_FALSE(one(Row(0, "a"), other_job));
  // Without ranks only the id of a job says that two hosts belong together.
  FleetRow a = Row(0, "a"), b = Row(0, "b"), again = Row(0, "a");
  a.rank = b.rank = again.rank = std::nullopt;
  CHECK_FALSE(one(a, b));
  CHECK_FALSE(one(a, Row(1, "b")));
  a.job_id = b.job_id = again.job_id = "job";
  CHECK(one(a, b));
  CHECK_FALSE(one(a, again));
  // The clock of one host was set between the two: the time since boot decides.
  FleetRow moved = Row(1, "a", absl::Minutes(1));
  moved.started -= absl::Hours(1);
  CHECK(one(Row(0, "a"), moved));
}

TEST_CASE("deaths on two hosts within a second have no order") {
  const Fleet fleet = FleetOf({Dead(Row(0, "a"), absl::Seconds(50)), Dead(Row(1, "b"), absl::Seconds(50.4))});
  CHECK_FALSE(absl::StrContains(fleet.sentence, "the first to end badly"));
  CHECK(absl::StrContains(fleet.sentence, "can't be told from the clocks of two hosts"));
}

TEST_CASE("the order is undecided if any other host is close, not only the next to die") {
  const Fleet fleet = FleetOf({Dead(Row(0, "a"), absl::Seconds(50)), Dead(Row(1, "a"), absl::Seconds(50.2)),
                               Dead(Row(2, "b"), absl::Seconds(50.5))});
  REQUIRE(fleet.first);
  CHECK(fleet.first->undecided);
  CHECK_FALSE(absl::StrContains(fleet.sentence, "the first to end badly"));
  // Rank 1 was later for certain: by the clock of rank 0's host.
  CHECK(fleet.rows[fleet.first->next_row].rank == 2);
  CHECK(fleet.first->until_next == absl::Seconds(0.5));
  CHECK(absl::StrContains(fleet.sentence, "So did a process of rank 2 on b; which was first can't be told"));
}

TEST_CASE("ranks beyond those that were recorded are missing, if the job's size is known") {
  FleetRow row = Row(0, "a");
  row.world_size = 3;
  CHECK(Says(FleetOf({row, Row(1, "a")}).notes, "No recording of rank 2."));
  FleetRow other = Row(5, "a");
  other.job_id = "other";
  CHECK_FALSE(Says(FleetOf({row, other}).notes, "No recording of"));
}

TEST_CASE("clocks an hour apart are said, and order nothing") {
  const Fleet fleet =
      FleetOf({Dead(Row(0, "a"), absl::Seconds(50)), Dead(Row(1, "b", absl::Hours(1)), absl::Seconds(5)), Row(2, "c")});
  CHECK(Says(fleet.notes, "the clocks differ, or these did not run together"));
  CHECK_FALSE(absl::StrContains(fleet.sentence, "the first to end badly"));
  const Fleet together = FleetOf({Row(0, "a"), Row(1, "b", absl::Minutes(9))});
  CHECK(together.notes.empty());
}

TEST_CASE("a process that is there twice counts once; a rank that was started again counts twice") {
  FleetRow again = Row(0, "a");
  again.path = "other.json";
  const Fleet twice = FleetOf({Row(0, "a"), again, Row(1, "a")});
  CHECK(twice.repeated == std::vector<bool>{false, true, false});
  CHECK(twice.copied_bytes == 200 << 20);
  CHECK(twice.workers == 4);
  again.process.pid = 999;
  const Fleet restarted = FleetOf({Row(0, "a"), again, Row(1, "a")});
  CHECK(restarted.copied_bytes == 300 << 20);
  CHECK(Says(restarted.notes, "There are two processes of rank 0"));
}

TEST_CASE("what only a later recording of a process saw is told") {
  FleetRow later = Dead(Row(0, "a", absl::Minutes(20)), absl::Seconds(5));
  later.path = "later.json";
  const Fleet restarted = FleetOf({Row(0, "a"), later, Row(1, "b")});
  REQUIRE(restarted.deaths.size() == 1);
  CHECK(restarted.deaths[0].first == 1);
  CHECK(absl::StartsWith(restarted.sentence, "In rank 0 on a, worker 0 was the first to end badly 5.0 s"));
  CHECK(restarted.notes ==
        std::vector<std::string>{"rank 0 on a, process 100, is in rank-0.json and, at another time, "
                                 "in later.json; sums have the copies of both, and the higher peak."});
  CHECK(restarted.repeated == std::vector<bool>{false, false, false});
  CHECK(restarted.processes == 2);
  CHECK(restarted.copied_bytes == 300 << 20);
  CHECK(restarted.workers == 4);
  CHECK(restarted.peak_bytes == 400 << 20);

  // A rank that outlived its launcher, whose recording ended with that.
  FleetRow of_launcher = Row(0, "a"), own = Dead(Row(0, "a", absl::Seconds(1)), absl::Minutes(5));
  of_launcher.duration = absl::Minutes(1);
  own.path = "own.json";
  const Fleet outlived = FleetOf({of_launcher, own});
  REQUIRE(outlived.first);
  CHECK(outlived.first->row == 1);
  CHECK(outlived.repeated == std::vector<bool>{false, true});
  CHECK(outlived.copied_bytes == 100 << 20);

  // Both saw the death of one worker; that of another is of the same rank, so no "next".
  FleetRow both = Dead(Row(0, "a"), absl::Seconds(6));
  both.deaths[0].process = own.deaths[0].process = {7, 5 * kNsPerTick};
  own.deaths[0].process.start_ns += 3;
  own.deaths[0].t = absl::Seconds(5);
  own.deaths.push_back({absl::Seconds(8), "worker 1", "killed by SIGKILL", {8, 1}});
  const Fleet twice = FleetOf({both, own});
  REQUIRE(twice.deaths.size() == 2);
  CHECK(twice.deaths[0].first == 0);
  CHECK(twice.deaths[1].second.process.pid == 8);
  CHECK_FALSE(twice.first->until_next);
}

TEST_CASE("of several recordings of a process the worst is told, and whether the last has an end") {
  FleetRow well = Row(0, "a"), worse = Row(0, "a", absl::Minutes(20));
  well.harm = Harm::kNone;
  well.headline = {"clean", "Nothing to do: 3 MiB copied."};
  CHECK(FleetOf({well, worse}).sentence == "rank 0: Reading copied.");
  FleetRow last = well;
  last.started += absl::Minutes(20);
  *last.boot += absl::Minutes(20);
  well.complete = false;
  CHECK(FleetOf({well, last}).sentence == "rank 0: Nothing to do.");
  std::swap(well.complete, last.complete);
  CHECK(absl::StrContains(FleetOf({well, last}).sentence, "as far as recorded: 1 of 1 has no end"));
}

TEST_CASE("who is unlike the rest: far from the median of three and more") {
  FleetRow heavy = Row(2, "b");
  heavy.copied_bytes = 300 << 20;
  CHECK(FleetOf({Row(0, "a"), heavy}).unlike.empty());
  const Fleet fleet = FleetOf({Row(0, "a"), Row(1, "a"), heavy, Row(3, "b")});
  REQUIRE(fleet.unlike.size() == 1);
  CHECK(fleet.unlike[0] == "rank 2 on b: 300.0 MiB copied, 3.0 times the median");
  CHECK(Says(fleet.common, "cow-refcount is the first finding in 4 of 4"));
  FleetRow close = Row(2, "b");
  close.copied_bytes = 120 << 20;
  CHECK(FleetOf({Row(0, "a"), Row(1, "a"), close}).unlike.empty());
  // Two halves: neither is the rest.
  FleetRow other = Row(3, "b");
  other.copied_bytes = 300 << 20;
  CHECK(FleetOf({Row(0, "a"), Row(1, "a"), heavy, other}).unlike.empty());
  // As a double it is 2^64.
  heavy.copied_bytes = heavy.workers = UINT64_MAX;
  const std::vector<std::string> hostile = FleetOf({Row(0, "a"), Row(1, "a"), heavy}).unlike;
  CHECK(Says(hostile, "rank 2 on b: 16777216.0 TiB copied"));
  CHECK(Says(hostile, "rank 2 on b: 18,446,744,073,709,551,615 workers at once"));
}

TEST_CASE("ranks without a recording, several jobs, no end") {
  FleetRow other_job = Row(4, "a");
  other_job.job_id = "evil\x1b[2J";
  other_job.complete = false;
  const Fleet fleet = FleetOf({Row(1, "a"), other_job});
  other_job.job_id.clear();
  CHECK(Says(FleetOf({Row(1, "a"), other_job}).notes, "No recording of ranks 0, 2, 3."));
  CHECK(Says(fleet.notes, "These belong to several jobs: none, evil\\x1b[2J."));
  CHECK(Says(fleet.notes, "has no end"));
}

TEST_CASE("local ranks of two hosts are no ranks of the job") {
  FleetRow a = Row(0, "a"), b = Row(0, "b");
  a.rank = b.rank = std::nullopt;
  a.local_rank = b.local_rank = 0;
  const Fleet fleet = FleetOf({a, b});
  CHECK(fleet.notes.empty());
  CHECK(NameOf(fleet.rows[0]) == "local rank 0 of rank-0.json");
}

TEST_CASE("the line of a leak copies nothing") {
  FleetRow row = Row(0, "a"), next = Row(1, "a");
  row.culprit = next.culprit = Culprit{.frame = {"/train.py", "add", 12}, .share = 1};
  CHECK(Says(FleetOf({row, next}).common, "most new memory is first touched by train.py:12 (add) in 2 of 2"));
  row.culprit_copies = next.culprit_copies = true;
  CHECK(Says(FleetOf({row, next}).common, "most is copied by train.py:12 (add) in 2 of 2"));
}

TEST_CASE("nothing to do in all of them") {
  FleetRow row = Row(0, "a");
  row.harm = Harm::kNone;
  row.headline = {"clean", "Nothing to do: 3 MiB copied."};
  FleetRow next = row;
  next.rank = 1;
  next.process.pid = 7;
  CHECK(FleetOf({row, next}).sentence == "Both: Nothing to do.");
  FleetRow third = next;
  third.rank = 2;
  third.process.pid = 8;
  CHECK(FleetOf({row, next, third}).sentence == "All 3 of them: Nothing to do.");
  // One that was cut off may have been killed.
  FleetRow cut = third;
  cut.complete = false;
  CHECK(FleetOf({row, next, cut}).sentence ==
        "All 3 of them: Nothing to do, as far as recorded: 1 of 3 has no end (still running, killed, or cut off).");
  cut.headline.sentence =
      "In the first 31.0 s (the recording still runs, or was cut off, perhaps by the OOM killer): fine.";
  CHECK(absl::StartsWith(FleetOf({row, next, cut}).sentence, "Worst of 3, rank 2: In the first 31.0 s"));
  // What might have gone wrong is said behind these words.
  FleetRow hazard = third;
  hazard.harm = Harm::kPossible;
  hazard.headline = {"fork-hazard", "Nothing to do: 3 MiB copied. A lock was held at a fork."};
  CHECK(absl::StartsWith(FleetOf({row, next, hazard}).sentence,
                         "Worst of 3, rank 2: Nothing to do: 3 MiB copied. A lock was held at a fork."));
  // "clean" may have something to say.
  third.headline.sentence = "Each worker copied little, but all together 1.2 GiB.";
  CHECK(absl::StrContains(FleetOf({row, next, third}).sentence, "1.2 GiB"));
  CHECK(FleetOf({}).rows.empty());
}

TEST_CASE("a row of a recording without an end says how far it goes, as the report of it does") {
  Run run;
  Append({.t = absl::Seconds(31), .events = {Started(0, -1)}}, &run);
  Findings findings;
  findings.diagnoses = {{.id = "clean", .harm = Harm::kNone}};
  findings.headline = {"clean", "Nothing to do: fine."};
  const auto sentence = [&](bool complete) { return RowOf("a.json", run, findings, complete).headline.sentence; };
  CHECK(sentence(true) == "Nothing to do: fine.");
  CHECK(sentence(false) == "Nothing to do in the first 31.0 s (the recording still runs, or was cut off): fine.");
  run.model.limits = {{.now = {LimitKind::kCgroupV2, "/kubepods/a", 1000, 970}}};
  CHECK(absl::StartsWith(sentence(false),
                         "In the first 31.0 s (the recording still runs, or was cut off, perhaps by the OOM killer: "));
}

TEST_CASE("the ranks of one recording: each has its own processes, and together they have all") {
  const auto start = [](int index, int parent, Count rank) {
    std::vector<Event> events = {{.index = index,
                                  .what = ProcessStarted{.id = {100 + index, 1},
                                                         .parent = parent,
                                                         .space = parent,
                                                         .origin = index == 0 ? Origin::kTarget : Origin::kForked}}};
    if (rank) {
      events.push_back({.index = index, .what = RankFound{{.source = RankSource::kTorch, .rank = rank}}});
    }
    return events;
  };
  Sample sample = {.t = absl::Seconds(1)};
  for (const auto& [index, parent, rank] : std::initializer_list<std::tuple<int, int, Count>>{
           {0, -1, {}}, {1, 0, 0}, {2, 0, 1}, {3, 1, {}}, {4, 2, {}}, {5, 2, {}}}) {
    for (const Event& event : start(index, parent, rank)) sample.events.push_back(event);
    ProcessSample row = {.index = index};
    row.counts.copies = 1000 * index;
    sample.processes.push_back(row);
  }
  Run run;
  RanksApart apart;
  apart.Add(sample);
  Append(sample, &run);
  const std::vector<RanksApart::Rank> ranks = apart.Of(run.model);
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].others.rank_of == ranks[1].others.rank_of);  // not a copy each
  const Count copied[] = {3000 * 4096, (4000 + 5000) * 4096};
  for (size_t i = 0; i < 2; ++i) {
    Run part = {.model = {.is_part = true}};
    Append(Without(ranks[i].others, sample), &part);
    const FleetRow row = RowOf("x.json", part, Judge(part), true);
    CHECK(row.rank == i);
    CHECK(row.process.pid == 101 + static_cast<int>(i));
    CHECK(row.workers == 1 + i);
    CHECK(row.copied_bytes == copied[i]);
  }
}

TEST_CASE("a rank that was recorded apart died if it exited by an error, unless it was asked to end") {
  const auto deaths = [](int code) {
    Run run;
    Append({.t = absl::Seconds(1), .events = {Started(0, -1, "./solver"), Exited(0, code << 8, absl::Seconds(1))}},
           &run);
    return RowOf("rank-0.json", run, Judge(run), true).deaths.size();
  };
  CHECK(deaths(0) == 0);
  CHECK(deaths(1) == 1);
  CHECK(deaths(143) == 0);
}

TEST_CASE("a sample without the processes of other ranks has all else") {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    RandomRecording recording(seed);
    for (int i = 0; i < 30; ++i) {
      Sample sample = recording.Next();
      CHECK(Without({std::make_shared<std::vector<int>>(100, -1)}, sample) == sample);
      CHECK(Without({std::make_shared<std::vector<int>>(100, 3), 3}, sample) == sample);
      const Sample none = Without({std::make_shared<std::vector<int>>(100, 3), 0}, sample);
      sample.events = none.events;
      sample.processes.clear();
      sample.copy_sites.clear();
      sample.growth.clear();
      CHECK(none == sample);
    }
  }
}

TEST_CASE("random recordings are ranks of a job, too") {
  std::vector<FleetRow> rows;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    RandomRecording recording(seed);
    Run run = {.model = {.info = recording.Info()}};
    RanksApart apart;
    std::vector<Sample> samples;
    for (int i = 0; i < 30; ++i) {
      samples.push_back(recording.Next());
      apart.Add(samples.back());
      Append(samples.back(), &run);
    }
    rows.push_back(RowOf("x", run, Judge(run), true));
    for (const RanksApart::Rank& rank : apart.Of(run.model)) {
      Run part = {.model = {.info = recording.Info(), .is_part = true}};
      for (const Sample& sample : samples) Append(Without(rank.others, sample), &part);
      rows.push_back(RowOf("y", part, Judge(part), false));
    }
  }
  const Fleet fleet = FleetOf(rows);
  CHECK(fleet.rows.size() == rows.size());
  CHECK_FALSE(fleet.sentence.empty());
}

}  // namespace cowprof
