// What workers hold without a copy that was seen: pickled to them, or there before the attach. Pages are of 4096 bytes:
// 256 of them are 1 MiB.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "builders.h"
#include "judged.h"
#include "model/judge/diagnosis_facts.h"

namespace cowprof {
namespace {

constexpr uint64_t kMiB = 256;  // in pages

// A worker that runs at the attach, with so much private memory, and copies since, for reading objects.
struct Found {
  uint64_t private_mib = 0, copied_mib = 0;
  StartMethod start = StartMethod::kUnknown;
};

ProcessSample RowOf(int index, const Found& found, bool now) {
  const uint64_t copies = now ? found.copied_mib * kMiB : 0;
  ProcessSample row = {.index = index, .causes = CauseCounts{}};
  row.counts = {.write_protect_faults = copies, .copies = copies, .zero_upgrades = 0, .zero_fill_pages = 0};
  row.causes->at(static_cast<int>(Cause::kRefcount)) = copies;
  row.proc.anon_pages = 300 * kMiB;
  row.proc.file_pages = 8 * kMiB;
  if (!now) row.rollup = RollupFigures{.private_bytes = found.private_mib << 20};
  return row;
}

// Attached to a target with 200 MiB of its own, below which there are a forkserver of 8 MiB and these workers.
Run Attached(const std::vector<Found>& workers) {
  Run run;
  const auto started = [](int index, int parent, Origin origin) {
    Event event =
        Started(index, parent,
                index == 1 ? "python -c from multiprocessing.forkserver import main; main(8)" : "python train.py");
    std::get<ProcessStarted>(event.what).origin = origin;
    return event;
  };
  for (int second = 0; second <= 10; ++second) {
    Sample sample = {.t = absl::Seconds(second)};
    if (second == 0) sample.events = {started(0, -1, Origin::kTarget), started(1, 0, Origin::kFoundAtAttach)};
    sample.processes = {RowOf(0, {.private_mib = 200}, second > 0), RowOf(1, {}, second > 0)};
    sample.processes[1].proc.anon_pages = 8 * kMiB;
    for (size_t i = 0; i < workers.size(); ++i) {
      const int index = static_cast<int>(i) + 2;
      const bool served = workers[i].start == StartMethod::kForkserver;
      if (second == 0) sample.events.push_back(started(index, served ? 1 : 0, Origin::kFoundAtAttach));
      sample.processes.push_back(RowOf(index, workers[i], second > 0));
    }
    Append(sample, &run);
    run.model.processes[1].role = Role::kForkserver;
    for (size_t i = 0; i < workers.size(); ++i) {
      run.model.processes[i + 2].role = Role::kWorker;
      run.model.processes[i + 2].duty.start = workers[i].start;
    }
  }
  return run;
}

// Adds a line for all copies of the first worker.
void AddLine(Run* run) {
  run->model.frames = {{"/home/me/train.py", "Reviews.__getitem__", 36}};
  run->model.copy_sites = {{Cause::kRefcount, "str", "", "", {0}}};
  const uint64_t copies = *run->model.processes[2].counts.copies;
  run->model.processes[2].copy_sites[0] = {2, 0, copies, copies, copies};
}

// A process below the target, by its parent's index. `unpickled_mib` of what it has came as it was spawned, by the
// stacks of its first touches.
struct Below {
  int parent = 0;
  Role role = Role::kWorker;
  uint64_t private_mib = 0, unpickled_mib = 0;
};

Run Launched(uint64_t target_mib, const std::vector<Below>& below) {
  Run run;
  Sample sample = {.events = {Started(0, -1)}, .processes = {RowByCause(0, {})}};
  sample.new_frames = {{"/usr/lib/python3.14/multiprocessing/spawn.py", "_main", 130}};
  sample.new_growth_sites = {{.frames = {0}}};
  for (size_t i = 0; i < below.size(); ++i) {
    const int index = static_cast<int>(i) + 1;
    sample.events.push_back(Started(index, below[i].parent));
    sample.processes.push_back(RowByCause(index, {}));
    sample.processes.back().counts.zero_fill_pages = below[i].private_mib * kMiB;
    if (below[i].unpickled_mib > 0) sample.growth.push_back({index, 0, below[i].unpickled_mib * kMiB, 1});
  }
  Append(sample, &run);
  run.model.processes[0].peak_private_bytes = target_mib << 20;
  WorkersPeak peak;
  for (size_t i = 0; i < below.size(); ++i) {
    ProcessModel& process = run.model.processes[i + 1];
    process.role = below[i].role;
    process.peak_private_bytes = below[i].private_mib << 20;
    process.execed = below[i].unpickled_mib > 0;
    if (process.execed) process.duty.start = StartMethod::kSpawn;
    if (!process.is_worker()) continue;
    peak.bytes += *process.peak_private_bytes;
    peak.fresh_bytes.emplace_back(process.index, *process.peak_private_bytes);
  }
  run.model.workers_peak = peak;
  return run;
}

}  // namespace

TEST_CASE("pickled: below a launcher it is the rank that has the original, not the launcher") {
  const auto below = [](uint64_t rank_mib) {
    const Below rank = {.role = Role::kRank, .private_mib = rank_mib};
    const auto worker = [](int parent) { return Below{.parent = parent, .private_mib = 2048, .unpickled_mib = 2048}; };
    return Launched(100, {rank, rank, worker(1), worker(1), worker(2), worker(2)});
  };
  const Run run = below(3072);
  REQUIRE(IdsOf(run) == Ids{"private-by-spawn"});
  const Diagnosis found = DiagnosesOf(run)[0];
  CHECK(found.summary ==
        "The spawn start method gave each worker its own copy of what was pickled: 2.0 GiB each in 2 ranks of 2 "
        "workers each. This is not copy-on-write: there was no sharing to lose.");
  CHECK(absl::StrContains(TextOf(found), "the program itself had at most 3.0 GiB"));
  CHECK(absl::StrContains(TextOf(found), "multiprocessing.get_context('fork')"));
  CHECK(found.bytes == uint64_t{8} << 30);
  CHECK(found.saves == SavingOf(uint64_t{8} << 30));
  // Near miss: nobody above the workers ever had half as much, though another process has.
  Run small = below(500);
  CHECK(IdsOf(small) == Ids{"clean"});
  small.model.processes[2].role = Role::kOther;
  small.model.processes[2].peak_private_bytes = uint64_t{3} << 30;
  for (const int index : {5, 6}) small.model.processes[index].parent = 1;
  CHECK(IdsOf(small) == Ids{"clean"});
}

TEST_CASE("pickled: ranks are not called workers, and their own workers may share what they have") {
  const Below rank = {.role = Role::kRank, .private_mib = 600, .unpickled_mib = 500};
  const Run run = Launched(600, {rank, rank, {.parent = 1, .private_mib = 20}, {.parent = 2, .private_mib = 20}});
  REQUIRE(IdsOf(run) == Ids{"private-by-spawn"});
  const Diagnosis found = DiagnosesOf(run)[0];
  CHECK(found.summary ==
        "The spawn start method gave each rank its own copy of what was pickled: 500.0 MiB each in 2 ranks. This is "
        "not copy-on-write: ranks share none of the launcher's memory.");
  REQUIRE(found.advice.size() == 1);
  CHECK(absl::StartsWith(found.advice[0], "Send the ranks a path"));
  CHECK(found.pids == std::vector<pid_t>{1001, 1002});
  CHECK(found.bytes == 1000 << 20);
  CHECK(!found.saves);
  // One of them spawns a worker, too.
  const Run both = Launched(600, {rank, {.parent = 1, .private_mib = 500, .unpickled_mib = 500}});
  REQUIRE(IdsOf(both) == Ids{"private-by-spawn"});
  CHECK(absl::StrContains(HeadlineOf(both),
                          "gave each process its own copy of what was pickled: 500.0 MiB each in 2 "
                          "processes."));
  CHECK(DiagnosesOf(both)[0].bytes == 1000 << 20);
}

TEST_CASE("pickled: a mean that no worker has is not said to be each one's") {
  const auto headline = [](uint64_t other_mib) {
    return HeadlineOf(Launched(
        2048, {{.private_mib = 1100, .unpickled_mib = 1024}, {.private_mib = other_mib, .unpickled_mib = other_mib}}));
  };
  CHECK(absl::StrContains(headline(40), ": up to 1.0 GiB each in 2 workers."));
  CHECK(absl::StrContains(headline(1000), ": 1012.0 MiB each in 2 workers."));
}

TEST_CASE("late attach: what a spawned worker has was never shared, and that is said first") {
  const StartMethod start = GENERATE(StartMethod::kSpawn, StartMethod::kLoky, StartMethod::kForkserver);
  const Run run = Attached({{.private_mib = 58, .start = start}, {.private_mib = 58, .start = start}});
  REQUIRE(IdsOf(run) == Ids{"private-by-spawn"});
  const Diagnosis found = DiagnosesOf(run)[0];
  INFO(TextOf(found));
  const uint64_t mib = start == StartMethod::kForkserver ? 50 : 58;  // it may have copied what the server has
  CHECK(absl::StrContains(HeadlineOf(run),
                          absl::StrCat("when cowprof attached, 2 workers already had ", mib, ".0 MiB each")));
  CHECK(!absl::StrContains(TextOf(found), "can't be told"));
  CHECK(found.pids == std::vector<pid_t>{1002, 1003});
  CHECK(found.bytes == 2 * mib << 20);
  CHECK(!found.saves);  // what of it was pickled is not known
}

TEST_CASE("late attach: near misses of a spawned worker") {
  // Forked from the program: nobody knows whether it copied.
  CHECK(IdsOf(Attached({{.private_mib = 58}})) == Ids{"before-attach"});
  // The headline mentions what an interpreter needs; it is not a finding.
  const Run small = Attached({{.private_mib = 30, .start = StartMethod::kSpawn}});
  REQUIRE(IdsOf(small) == Ids{"clean"});
  INFO(HeadlineOf(small));
  CHECK(absl::StrContains(HeadlineOf(small),
                          "30.0 MiB of new memory of their own, 30.0 MiB of it before cowprof attached"));
  // A forkserver that had preloaded as much: the worker may have copied that.
  Run preloaded = Attached({{.private_mib = 58, .start = StartMethod::kForkserver}});
  preloaded.model.processes[1].proc.anon_pages = 60 * kMiB;
  CHECK(IdsOf(preloaded) == Ids{"before-attach"});
  // The program never had half as much to send.
  Run grown = Attached({{.private_mib = 150, .start = StartMethod::kSpawn}});
  grown.model.processes[0].peak_private_bytes = 50 << 20;
  CHECK(IdsOf(grown) == Ids{"clean"});
}

TEST_CASE("late attach: what was there and what was copied since are one sentence, whichever is more") {
  Run run = Attached({{.private_mib = 46, .copied_mib = 45}});
  AddLine(&run);
  REQUIRE(IdsOf(run) == Ids{"before-attach", "cow-refcount"});
  CHECK(
      HeadlineOf(run) ==
      "Before cowprof attached, 1 worker already had 46.0 MiB of private memory, whose cause can no longer be determined; "
      "since then reading Python objects duplicated 45.0 MiB of the parent's memory in 1 worker; 100 % of it at "
      "train.py:36 in Reviews.__getitem__ (str).");
  const Diagnosis found = DiagnosesOf(run)[0];
  CHECK(absl::StrContains(found.advice[0], "large buffers"));
  CHECK(absl::StrContains(TextOf(found), "cowprof -- CMD"));
  CHECK(absl::StrContains(found.sketch, "class"));
  CHECK(absl::StrContains(TextOf(found), "that was not seen"));
  REQUIRE(found.culprit);
  CHECK(found.culprit->frame.line == 36);
  CHECK(found.saves == Saving{.low = SavingOf(45 << 20).low, .best = SavingOf(45 << 20).best, .high = 91 << 20});
  run = Attached({{.private_mib = 46, .copied_mib = 47}});
  REQUIRE(IdsOf(run) == Ids{"cow-refcount", "before-attach"});
  CHECK(HeadlineOf(run) ==
        "Reading Python objects duplicated 47.0 MiB of the parent's memory in 1 worker; before cowprof attached, 1 "
        "worker already had 46.0 MiB of private memory, whose cause can no longer be determined.");
  // Nothing was copied since.
  run = Attached({{.private_mib = 46, .copied_mib = 1}});
  CHECK(IdsOf(run) == Ids{"before-attach"});
  CHECK(!absl::StrContains(HeadlineOf(run), "since then"));
  // It can't have inherited as much.
  run.model.processes[0].first_anon_pages = run.model.processes[0].proc.anon_pages = 5 << 8;
  CHECK(absl::StrContains(HeadlineOf(run),
                          " whose cause can no longer be determined; each has far more than its parent (5.0 MiB), "
                          "so most of it is new memory, unless the parent has freed as much since."));
  CHECK(!DiagnosesOf(run)[0].saves);
}

}  // namespace cowprof
