// Private memory around fork, vfork and exec, from hand-made samples: a command that a large parent runs never owns
// what its parent has. Pages are of 4096 bytes.
#include <catch2/catch.hpp>
#include <vector>

#include "builders.h"
#include "model/facts/run_model.h"

namespace cowprof {
namespace {

constexpr uint64_t kPage = 4096, kLarge = 100'000;

Event Forked(int index) {
  Event event = Started(index, 0);
  event.As<ProcessStarted>()->space = 0;
  return event;
}
Event Vforked(int index) {
  Event event = Started(index, 0);
  event.As<ProcessStarted>()->vforked = true;
  return event;
}
Event Execed(int index) {
  return {.index = index, .what = ProcessExeced{.comm = "sleep", .command = "sleep 1", .executable = "/bin/sleep"}};
}
ProcessSample RowOf(int index, uint64_t copies, Count anon_pages, uint64_t new_pages = 0) {
  ProcessSample row = RowWithCopies(index, copies);
  row.counts.zero_fill_pages = new_pages;
  row.proc.anon_pages = anon_pages;
  return row;
}
ProcessSample Ended(int index, uint64_t copies) { return RowOf(index, copies, std::nullopt); }

// Of a parent of 100,000 pages, all its own; every Add() is a tick.
struct Commands {
  RunModel model = {.info = {.exactness = Exactness::kExact}};
  ProcessSample parent = RowOf(0, 0, kLarge);

  Commands() {
    ProcessSample swept = parent;
    swept.sweep = SweepFigures{.full = true, .private_pages = kLarge};
    Append({.t = absl::Seconds(1), .events = {Started(0, -1)}, .processes = {swept}}, &model);
  }
  const ProcessModel& Add(const std::vector<Event>& events, const ProcessSample& row) {
    Append({.t = model.t + absl::Seconds(1), .events = events, .processes = {parent, row}}, &model);
    return model.processes[1];
  }
};

}  // namespace

TEST_CASE("a command that was last read before its exec has only what it copied") {
  Commands run;
  const bool vforked = GENERATE(false, true), read_after = GENERATE(false, true);
  const ProcessModel& command = run.Add({vforked ? Vforked(1) : Forked(1)}, RowOf(1, 4, kLarge));
  CHECK(command.private_bytes == (vforked ? 0 : 4) * kPage);
  if (read_after) CHECK(run.Add({Execed(1)}, RowOf(1, 6, 27)).private_bytes == 27 * kPage);
  run.Add(read_after ? std::vector{Exited(1)} : std::vector{Execed(1), Exited(1)}, Ended(1, 6));
  CHECK(command.peak_private_bytes == (read_after ? 27 : vforked ? 2 : 4) * kPage);
  CHECK(command.private_bytes == (read_after ? 27 : 2) * kPage);
  CHECK(command.still_shared_bytes.value_or(0) == 0);
  CHECK(command.role == Role::kOther);
  CHECK(command.counts.copies == 6u);
}

TEST_CASE("a command that was found between vfork and exec never had what its parent has") {
  Commands run;
  Event found = Forked(1);
  found.As<ProcessStarted>()->origin = Origin::kFoundAtAttach;
  ProcessSample row = RowOf(1, 0, kLarge);
  row.rollup = RollupFigures{.rss_bytes = kLarge * kPage, .private_bytes = kLarge * kPage};
  run.Add({found}, row);
  CHECK(run.Add({Execed(1)}, RowOf(1, 6, 27)).peak_private_bytes == 27 * kPage);
}

TEST_CASE("a process that calls exec itself has what its new program has") {
  Commands run;
  run.parent = RowOf(0, 0, 50);
  run.Add({Execed(0)}, RowOf(1, 0, {}));
  CHECK(run.model.processes[0].private_bytes == 50 * kPage);
  CHECK(run.model.processes[0].peak_private_bytes == kLarge * kPage);
}

TEST_CASE("a child of vfork is a helper without private memory until its exec") {
  Commands run;
  const ProcessModel& child = run.Add({Vforked(1)}, RowOf(1, 6, kLarge + 20, 20));
  run.Add({}, RowOf(1, 8, kLarge + 30, 30));
  CHECK(child.role == Role::kHelper);
  CHECK(child.private_bytes == 0u);
  CHECK(child.still_shared_bytes == 0u);
  CHECK(run.model.processes[0].private_bytes == kLarge * kPage);
  CHECK(SumOf(run.model, /*living_only=*/true, /*workers_only=*/false).private_bytes == kLarge * kPage);
  CHECK(run.model.most_living_workers == 0);
  // Its exec failed.
  run.Add({Exited(1, 127 << 8)}, Ended(1, 8));
  CHECK(child.role == Role::kHelper);
  CHECK(child.peak_private_bytes == 0u);
}

TEST_CASE("what a child gave back between a sweep and a rollup does not count as pages of files") {
  Commands run;
  constexpr uint64_t kFiles = 5;
  const auto rolled_up = [&](uint64_t private_pages) {
    return RollupFigures{.rss_bytes = (kLarge + kFiles) * kPage,
                         .private_bytes = private_pages * kPage,
                         .anonymous_bytes = kLarge * kPage};
  };
  // The sweep still finds a quarter shared; the rollup finds all private.
  run.parent.sweep = SweepFigures{.full = true, .private_pages = 75'000, .shared_pages = 25'000};
  run.parent.rollup = rolled_up(kLarge + 3);
  run.Add({Forked(1)}, RowOf(1, 0, kLarge));
  run.parent.sweep = SweepFigures{.full = true, .private_pages = kLarge};
  run.parent.rollup.reset();
  run.Add({Execed(1)}, RowOf(1, 0, 27));
  CHECK(run.model.processes[0].private_bytes == (kLarge + kFiles) * kPage);  // not more than its resident memory
  CHECK(run.model.processes[0].peak_private_bytes == (kLarge + kFiles) * kPage);
}

}  // namespace cowprof
