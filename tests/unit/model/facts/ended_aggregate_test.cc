// Folding loses no count: whatever stays and whatever is summed up, the sums over all rows are the same, and what a
// reader wants to see of the ended processes stays.
#include "model/facts/ended_aggregate.h"

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "judged.h"
#include "random_recording.h"

namespace cowprof {
namespace {

constexpr int kProcesses = 2000;
constexpr size_t kMost = 100;

Event Forked(int index) {
  return {.index = index,
          .what = ProcessStarted{.id = {1000 + index % 50, 1'000'000'000ull * (index + 1)},  // pids come round
                                 .parent = index == 0 ? -1 : 0,
                                 .space = index == 0 ? -1 : 0,
                                 .origin = index == 0 ? Origin::kTarget : Origin::kForked}};
}

uint64_t CopiesOf(int index) { return 10 + index * 37 % 1000; }

ProcessSample RowOf(int index) {
  ProcessSample row = {.index = index};
  row.counts.copies = row.counts.write_protect_faults = CopiesOf(index);
  row.counts.zero_upgrades = row.counts.zero_fill_pages = 0;
  row.causes = CauseCounts{};
  (*row.causes)[static_cast<int>(Cause::kData)] = CopiesOf(index);
  return row;
}

// Two workers come and go with each sample; every 500th is killed.
RunModel RecordedWith(size_t most_ended) {
  Run run;
  run.model.most_ended = most_ended;
  run.model.copy_sites = {CopySite{.cause = Cause::kData}};
  Append({.events = {Forked(0)}, .processes = {RowOf(0)}}, &run);
  for (int index = 1; index + 1 < kProcesses; index += 2) {
    Sample sample = {.t = absl::Milliseconds(10 * index)};
    for (const int one : {index, index + 1}) {
      sample.events.push_back(Forked(one));
      sample.processes.push_back(RowOf(one));
      sample.copy_sites.push_back({.index = one, .copy_site = 0, .copies = CopiesOf(one), .samples = CopiesOf(one)});
      Event exit = {.t = sample.t, .index = one, .what = ProcessExited{.status = one % 500 == 0 ? SIGKILL : 0}};
      sample.events.push_back(exit);
    }
    Append(sample, &run);
  }
  return run.model;
}

}  // namespace

TEST_CASE("ended processes beyond a number are folded, and every sum stays what it was") {
  const RunModel all = RecordedWith(1 << 20), few = RecordedWith(kMost);
  CHECK(all.ended_aggregates.empty());
  CHECK(all.processes.size() == kProcesses - 1);
  CHECK(few.processes.size() <= 1 + kMost + kMost / 4);
  REQUIRE(few.ended_aggregates.size() == 1);
  for (const bool workers_only : {false, true}) {
    const Totals a = SumOf(all, false, workers_only), b = SumOf(few, false, workers_only);
    CHECK(a.processes == b.processes);
    CHECK(a.copies == b.copies);
    CHECK(a.causes == b.causes);
    CHECK(a.private_bytes == b.private_bytes);
  }
  CHECK(SumOf(few, true, false).processes == 1);
}

TEST_CASE("those that ended in the last sample are listed until the next one, however many") {
  Run run;
  run.model.most_ended = kMost;
  Sample burst = {.t = absl::Seconds(1), .events = {Forked(0)}};
  for (int index = 1; index < kProcesses; ++index) {
    burst.events.push_back(Forked(index));
    burst.events.push_back({.t = burst.t, .index = index, .what = ProcessExited{.status = 0}});
  }
  Append(burst, &run);
  CHECK(run.model.processes.size() == kProcesses);
  Append({.t = absl::Seconds(2)}, &run);
  CHECK(run.model.processes.size() == 1 + kMost);
  CHECK(SumOf(run.model, false, false).processes == kProcesses);
}

TEST_CASE("sums that are kept of those that ended are the sums over all rows") {
  const auto check = [](const RunModel& model) {
    RunModel summed_up = model;
    summed_up.settled.stale = true;
    for (const bool living_only : {false, true}) {
      for (const bool workers_only : {false, true})
        CHECK(SumOf(model, living_only, workers_only) == SumOf(summed_up, living_only, workers_only));
    }
    LivingAndAll sums = SumsOf(model);
    CHECK(sums.living == SumOf(model, true, false));
    const Totals all = SumOf(model, false, false);
    CHECK(sums.all.copies_per_second == Approx(all.copies_per_second));
    sums.all.copies_per_second = all.copies_per_second;  // summed up in another order
    CHECK(sums.all == all);
    CHECK(CopiesOfWorkers(model) == CopiesOfWorkers(summed_up));
    size_t living = 0, lately = 0;
    for (const ProcessModel& process : model.processes) living += !process.ended;
    ForEachLately(model, [&](const ProcessModel& process) { lately += !process.ended; });
    CHECK(living == lately);
  };
  SECTION("in a real recording, folded or not") {
    for (const size_t most_ended : {kMost, size_t{1} << 20}) {
      const RunModel model = RecordedWith(most_ended);
      REQUIRE_FALSE(model.settled.stale);
      REQUIRE(model.settled.all.processes > 1900);
      REQUIRE(model.lately.size() <= 3);
      check(model);
    }
  }
  SECTION("in one with rows and children of ended processes") {
    RandomRecording recording(GENERATE(range(0u, 20u)));
    Run run;
    run.model.info = recording.Info();
    for (int i = 0; i < 50; ++i) {
      Append(recording.Next(), &run);
      check(run.model);
    }
    const auto ended = std::find_if(run.model.processes.begin(), run.model.processes.end(),
                                    [](const ProcessModel& process) { return process.ended.has_value(); });
    REQUIRE(ended != run.model.processes.end());
    const int index = ended->index;
    Append({.t = run.model.t, .processes = {RowOf(index)}}, &run);
    check(run.model);
    Append({.t = run.model.t, .events = {Forked(index)}, .processes = {RowOf(index)}}, &run);
    CHECK_FALSE(run.model.Find(index)->ended);
    check(run.model);
  }
}

TEST_CASE("the places of what was folded stand in its row") {
  const RunModel few = RecordedWith(kMost);
  uint64_t in_places = 0;
  ForEachRow(few, [&](const ProcessModel& row) {
    for (const auto& [copy_site, count] : row.copy_sites) in_places += count.copies;
  });
  uint64_t copies = 0;
  for (int index = 1; index < kProcesses - 1; ++index) copies += CopiesOf(index);
  CHECK(in_places == copies);
}

TEST_CASE("the first processes, those that were killed and those that copied most keep a row") {
  const RunModel few = RecordedWith(kMost);
  for (int index = 0; index < 64; ++index) CHECK(few.Find(index) != nullptr);
  for (int index = 500; index < kProcesses - 1; index += 500) CHECK(few.Find(index) != nullptr);
  uint64_t most = 0;
  for (int index = 64; index < kProcesses - 1; ++index) most = std::max(most, CopiesOf(index));
  bool kept = false;
  for (const ProcessModel& process : few.processes) kept |= process.index >= 64 && process.counts.copies == most;
  CHECK(kept);
}

TEST_CASE("those that ended badly keep a row before those that were asked to end, and all are counted") {
  Run run;
  run.model.most_ended = kMost;
  Append({.events = {Forked(0)}, .processes = {RowOf(0)}}, &run);
  run.model.processes[0].python = "3.11.2";
  for (int index = 1; index < kProcesses; ++index) {
    Sample sample = {.t = absl::Milliseconds(10 * index), .events = {Forked(index)}, .processes = {RowOf(index)}};
    const int status = index % 2 == 0 ? SIGTERM : index % 501 == 0 ? 1 << 8 : 0;
    sample.events.push_back({.t = sample.t, .index = index, .what = ProcessExited{.status = status}});
    Append(sample, &run);
  }
  for (int index = 501; index < kProcesses; index += 1002) CHECK(run.model.Find(index) != nullptr);
  run.model.most_ended = 63;  // the first ones alone
  AggregateEnded(&run.model);
  CHECK(run.model.Find(501) == nullptr);
  REQUIRE(run.model.ended_aggregates.size() == 1);
  CHECK(run.model.ended_aggregates[0].bad_ends == 2);
  CHECK(HeadlineOf(run).starts_with("2 of 1,999 workers ended badly."));
}

TEST_CASE("ranks that failed keep a row, and are counted when they are folded") {
  Run run;
  run.model.most_ended = kMost;
  Append({.events = {Forked(0)}, .processes = {RowOf(0)}}, &run);
  for (int index = 1; index < kProcesses; ++index) {
    Sample sample = {.t = absl::Milliseconds(10 * index), .events = {Forked(index)}, .processes = {RowOf(index)}};
    sample.events[0].As<ProcessStarted>()->space = -1;
    sample.events.push_back({.t = sample.t, .index = index, .what = DutyFound{.duty = Duty::kTrainer}});
    const int status = index % 501 == 0 ? 1 << 8 : 0;
    sample.events.push_back({.t = sample.t, .index = index, .what = ProcessExited{.status = status}});
    Append(sample, &run);
  }
  for (int index = 501; index < kProcesses; index += 501) CHECK(run.model.Find(index) != nullptr);
  run.model.most_ended = 63;  // the first ones alone
  AggregateEnded(&run.model);
  CHECK(run.model.Find(501) == nullptr);
  CHECK(HeadlineOf(run).starts_with("3 of 1,999 ranks ended badly."));
}

TEST_CASE("what is said later of a process that is folded is passed over") {
  RunModel few = RecordedWith(kMost);
  int gone = 64;
  while (few.Find(gone) != nullptr) ++gone;
  const uint64_t copies = SumOf(few, false, false).copies;
  Sample late = {.t = absl::Seconds(100), .processes = {RowOf(gone)}};
  late.copy_sites.push_back({.index = gone, .copy_site = 0, .copies = 5});
  late.events.push_back({.index = gone, .what = ProcessExited{}});
  Append(late, &few);
  CHECK(SumOf(few, false, false).copies == copies);
}

TEST_CASE("the sets of workers of what was folded are forgotten, unless one of them lives") {
  Run run;
  run.model.most_ended = kMost;
  Append({.events = {Forked(0)}, .processes = {RowOf(0)}}, &run);
  int living = 0;
  for (int index = 1; index + 1 < kProcesses; index += 2) {
    Event worker = Forked(index + 1);
    worker.As<ProcessStarted>()->parent = worker.As<ProcessStarted>()->space = index;
    Sample sample = {.t = absl::Milliseconds(10 * index), .events = {Forked(index), worker}};
    sample.processes = {RowOf(index), RowOf(index + 1)};
    sample.events.push_back({.t = sample.t, .index = index, .what = ProcessExited{}});
    if (index == 101) living = index + 1;
    if (index != 101) sample.events.push_back({.t = sample.t, .index = index + 1, .what = ProcessExited{}});
    Append(sample, &run);
  }
  CHECK(run.model.worker_sets.size() <= 2 + kMost + kMost / 4);
  CHECK(run.model.worker_sets.contains(0));
  CHECK(run.model.Find(living)->generation == 0);
  CHECK(run.model.worker_sets.contains(run.model.Find(living)->parent));
}

TEST_CASE("a process whose address space is folded is appended all the same") {
  RunModel few = RecordedWith(kMost);
  int gone = 64;
  while (few.Find(gone) != nullptr) ++gone;
  Event orphan = Forked(few.announced);
  auto* started = orphan.As<ProcessStarted>();
  started->parent = started->space = gone;
  Append({.t = absl::Seconds(100), .events = {orphan}, .processes = {RowOf(orphan.index)}}, &few);
  REQUIRE(few.Find(orphan.index) != nullptr);
  CHECK(few.Find(orphan.index)->space == gone);
}

}  // namespace cowprof
