// What new memory was touched first for, by hand-made stacks. Pages are of 4096 bytes.
#include "model/judge/growth.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "builders.h"
#include "judged.h"
#include "model/judge/diagnosis_facts.h"

namespace cowprof {
namespace {

constexpr uint64_t kMiB = 256;  // pages

const Frame kBootstrap = {"/usr/lib/python3.11/multiprocessing/process.py", "BaseProcess._bootstrap", 314};
const Frame kGet = {"/usr/lib/python3.11/multiprocessing/queues.py", "SimpleQueue.get", 367};
const Frame kWork = {"/home/me/train.py", "work", 12};

// A run with one process that touched `pages[i]` new pages under `stacks[i]`.
Run Grown(const std::vector<std::vector<Frame>>& stacks, const std::vector<uint64_t>& pages, uint64_t unsampled = 0) {
  Run run;
  Sample sample = {.events = {Started(0, -1), Started(1, 0)}, .processes = {{.index = 0}, {.index = 1}}};
  uint64_t all = unsampled;
  for (size_t i = 0; i < stacks.size(); ++i) {
    GrowthSite site;
    for (const Frame& frame : stacks[i]) {
      site.frames.push_back(static_cast<int>(sample.new_frames.size()));
      sample.new_frames.push_back(frame);
    }
    sample.new_growth_sites.push_back(site);
    sample.growth.push_back({1, static_cast<int>(i), pages[i], 1});
    all += pages[i];
  }
  sample.processes[1].counts.zero_fill_pages = all;
  sample.processes[1].counts.zero_upgrades = 0;
  Append(sample, &run);
  return run;
}

GrowthKind KindOf(const std::vector<Frame>& stack) {
  const Run run = Grown({stack}, {1});
  return KindOf(run.model, run.model.growth_sites[0]);
}

uint64_t ReceivedMiB(const Run& run, uint64_t fresh_mib) {
  return UnpickledIn(run.model, run.model.processes[1], fresh_mib << 20)->received >> 20;
}

}  // namespace

TEST_CASE("growth: the innermost frame that tells decides") {
  const Frame spawn = {"/opt/py/lib/python3.8/multiprocessing/spawn.py", "_main", 126};
  const Frame prepare = {spawn.file, "prepare", 236};
  const Frame import = {"<frozen importlib._bootstrap>", "_find_and_load", 1000};
  const Frame setstate = {"/home/me/data.py", "Items.__setstate__", 3};
  CHECK(KindOf({kWork, kBootstrap}) == GrowthKind::kOther);
  CHECK(KindOf({}) == GrowthKind::kOther);
  CHECK(KindOf({kGet, kWork, kBootstrap}) == GrowthKind::kReceived);
  CHECK(KindOf({setstate, kGet, kBootstrap}) == GrowthKind::kReceived);
  CHECK(KindOf({import, setstate, kGet, kBootstrap}) == GrowthKind::kImported);
  CHECK(KindOf({spawn}) == GrowthKind::kUnpickledAtStart);
  CHECK(KindOf({setstate, spawn}) == GrowthKind::kUnpickledAtStart);
  CHECK(KindOf({prepare, spawn}) == GrowthKind::kImported);
  // Everything that a spawned worker does, it does below the function that unpickled it.
  CHECK(KindOf({kWork, kBootstrap, spawn}) == GrowthKind::kOther);
  // Copies of multiprocessing.
  const std::string copy = "/venv/lib/python3.11/site-packages/multiprocess/";
  CHECK(KindOf({{copy + "queues.py", "SimpleQueue.get", 367}, kWork}) == GrowthKind::kReceived);
  CHECK(KindOf({{copy + "spawn.py", "_main", 126}}) == GrowthKind::kUnpickledAtStart);
  CHECK(KindOf({{"/srv/billiard/connection.py", "_recv_bytes", 3}}) == GrowthKind::kReceived);
  // A program's own names.
  CHECK(KindOf({{"/home/me/multiprocess/queues.py", "get", 3}, kBootstrap}) == GrowthKind::kOther);
  CHECK(KindOf({{"/home/me/queues.py", "get", 3}, kBootstrap}) == GrowthKind::kOther);
  CHECK(KindOf({{"/home/me/spawn.py", "_main", 3}, kBootstrap}) == GrowthKind::kOther);
}

TEST_CASE("growth: what was received is told as far as it can't be anything else") {
  CHECK(ReceivedMiB(Grown({{kGet}, {kWork}}, {80 * kMiB, 2 * kMiB}), 82) == 80);
  // It was freed and received again.
  CHECK(ReceivedMiB(Grown({{kGet}, {kWork}}, {800 * kMiB, 2 * kMiB}), 82) == 80);
  // Near miss: what came through the queue may all be freed, and what it holds its own.
  CHECK(ReceivedMiB(Grown({{kGet}, {kWork}}, {800 * kMiB, 90 * kMiB}), 80) == 0);
  CHECK(!UnpickledIn({}, {}, 80 << 20));
  // Pages that no sample stands for yet are like the others in a forked process, and unknown in one that called exec.
  Run run = Grown({{kGet}, {kWork}}, {90 * kMiB, 10 * kMiB}, 100 * kMiB);
  CHECK(ReceivedMiB(run, 100) == 80);
  run.model.processes[1].execed = true;
  CHECK(ReceivedMiB(run, 150) == 40);
}

TEST_CASE("growth: the line of a rise, if what was touched there was kept") {
  const Run run = Grown({{kWork, kBootstrap}, {kGet, kBootstrap}}, {90, 10});
  const ProcessModel& process = run.model.processes[1];
  Rise rise = {.pages = 95, .begin = -absl::Seconds(1), .zero_fills = 100};
  const std::optional<Culprit> culprit = CulpritOf(run.model, process, rise);
  REQUIRE(culprit);
  CHECK(culprit->frame == kWork);
  CHECK(culprit->share == Approx(0.9));
  // Twice as many pages as it kept: some line gave pages back, and nobody knows which.
  rise.pages = 50;
  CHECK(!CulpritOf(run.model, process, rise));
  // All of it was touched before the rise began.
  CHECK(!CulpritOf(run.model, process, {.pages = 95, .begin = absl::Seconds(1), .zero_fills = 100}));
  // No line has half of it.
  const Run spread = Grown({{kWork}, {{"a.py", "f", 1}}, {{"a.py", "f", 2}}}, {40, 30, 30});
  CHECK(
      !CulpritOf(spread.model, spread.model.processes[1], {.pages = 95, .begin = -absl::Seconds(1), .zero_fills = 99}));
}

TEST_CASE("growth: where nothing is wrong, the line of what workers made for themselves is told") {
  const auto sentence = [](const std::vector<std::vector<Frame>>& stacks, uint64_t kept_mib) {
    Run run = Grown(stacks, {90 * kMiB, 10 * kMiB});
    for (ProcessModel& process : run.model.processes) {
      process.causes = CauseCounts{};
      process.counts.copies = process.counts.write_protect_faults = 0;
    }
    run.model.workers_peak.fresh_bytes = {{1, kept_mib << 20}};
    return HeadlineOf(run);
  };
  const Frame load = {"/home/me/train.py", "load", 5}, library = {"/usr/lib/python3.11/json/decoder.py", "decode", 337};
  CHECK(absl::StrContains(
      sentence({{load, kBootstrap}, {kGet, kBootstrap}}, 95),
      "at most 95.0 MiB of new memory of their own; about 90 % of it first touched at train.py:5 in load; no"));
  // It was freed, most of it is of a library, or it is what any worker takes.
  CHECK(absl::StrContains(sentence({{load, kBootstrap}, {kGet, kBootstrap}}, 50),
                          "50.0 MiB of new memory of their own; no"));
  CHECK(absl::StrContains(sentence({{library, kBootstrap}, {load, kBootstrap}}, 95),
                          "95.0 MiB of new memory of their own; no"));
  CHECK(!absl::StrContains(sentence({{load, kBootstrap}, {kGet, kBootstrap}}, 15), "first touched"));
}

TEST_CASE("growth: copies made by pickling have multiprocessing's or loky's dump on their stack") {
  const auto is_pickling = [](const std::vector<Frame>& stack) {
    RunModel model = {.frames = stack};
    CopySite copy_site;
    for (size_t i = 0; i < stack.size(); ++i) copy_site.frames.push_back(static_cast<int>(i));
    return IsPickling(model, copy_site);
  };
  const std::string file = "/usr/lib/python3.11/multiprocessing/reduction.py";
  CHECK(is_pickling({kWork, {file, "ForkingPickler.dumps", 51}}));
  CHECK(is_pickling({{file, "dump", 60}, kWork}));
  CHECK(is_pickling({{"/venv/joblib/externals/loky/backend/reduction.py", "dumps", 213}}));
  CHECK_FALSE(is_pickling({}));
  CHECK_FALSE(is_pickling({kWork}));
  CHECK_FALSE(is_pickling({{file, "ForkingPickler.loads", 55}}));
  CHECK_FALSE(is_pickling({{"/home/me/train.py", "dumps", 3}}));
}

TEST_CASE("diagnosis: arguments are one figure, also of workers that got little") {
  Run run = Grown({{kGet, kBootstrap}, {kWork, kBootstrap}}, {20 * kMiB, 2 * kMiB});
  ProcessSample second = {.index = 2};
  second.counts.zero_fill_pages = 11 * kMiB;
  second.counts.zero_upgrades = 0;
  Append({.t = absl::Seconds(1), .events = {Started(2, 0)}, .processes = {second}, .growth = {{2, 0, 11 * kMiB, 1}}},
         &run);
  run.model.workers_peak = {.bytes = 33 << 20, .fresh_bytes = {{1, 22 << 20}, {2, 11 << 20}}};
  for (ProcessModel& process : run.model.processes) process.counts.copies = 0;
  for (const int index : {1, 2}) run.model.processes[index].framework = Framework::kPool;
  REQUIRE(IdsOf(run) == Ids{"pickled-arguments"});
  const Findings findings = Judge(run);
  CHECK(findings.peak.pickled == 31 << 20);
  CHECK(findings.diagnoses[0].bytes == findings.peak.pickled);
  CHECK(findings.diagnoses[0].pids == std::vector<pid_t>{1001, 1002});
  CHECK(absl::StrContains(findings.headline.sentence,
                          "sent to 2 workers took about 31.0 MiB in them at the peak, at most 20.0 MiB in one"));
  CHECK(findings.diagnoses[0].saves->high == findings.peak.pickled);
  // Near miss: none of them got more than noise.
  run.model.workers_peak.fresh_bytes = {{1, 16 << 20}, {2, 11 << 20}};
  CHECK(IdsOf(run) == Ids{"clean"});
}

TEST_CASE("diagnosis: what a process receives need not be arguments: it may be there to keep it") {
  Run run = Grown({{kGet, kBootstrap}, {kWork, kBootstrap}}, {80 * kMiB, 2 * kMiB});
  run.model.workers_peak = {.bytes = 82 << 20, .fresh_bytes = {{1, 82 << 20}}};
  for (ProcessModel& process : run.model.processes) process.counts.copies = 0;
  REQUIRE(IdsOf(run) == Ids{"pickled-arguments"});
  CHECK(HeadlineOf(run) ==
        "What 1 worker received through a queue or pipe took about 80.0 MiB in it at the peak. This is not "
        "copy-on-write.");
  const Diagnosis found = DiagnosesOf(run)[0];
  CHECK(found.bytes == 80 << 20);
  CHECK(!found.saves);
  CHECK(found.sketch.empty());
  REQUIRE(found.advice.size() == 2);
  CHECK(absl::StartsWith(found.advice[0], "Limit how much received data is kept"));
  CHECK(absl::StrContains(found.advice[1], "send an index"));
  for (const char* words : {"rguments", "task"}) CHECK(!absl::StrContains(TextOf(found), words));
  // A worker of a pool gets arguments; a pool beside it that got less does not make the rest arguments.
  run.model.processes[1].role = Role::kPool;
  CHECK(absl::StartsWith(HeadlineOf(run), "Arguments that were pickled and sent to 1 worker"));
  CHECK(DiagnosesOf(run)[0].saves);
  run.model.processes[1].role = Role::kWorker;
  ProcessSample pool = {.index = 2};
  pool.counts.zero_fill_pages = 11 * kMiB;
  pool.counts.zero_upgrades = 0;
  Append({.t = absl::Seconds(1), .events = {Started(2, 0)}, .processes = {pool}, .growth = {{2, 0, 11 * kMiB, 1}}},
         &run);
  run.model.workers_peak = {.bytes = 93 << 20, .fresh_bytes = {{1, 82 << 20}, {2, 11 << 20}}};
  run.model.processes[2].framework = Framework::kPool;
  run.model.processes[2].counts.copies = 0;
  CHECK(absl::StrContains(HeadlineOf(run), "What 2 workers received through queues or pipes took about 91.0 MiB in "));
}

TEST_CASE("diagnosis: what spawned workers unpickled at their start is what another way would save") {
  const Frame main = {"/usr/lib/python3.11/multiprocessing/spawn.py", "_main", 126};
  Run run = Grown({{main}, {kWork, kBootstrap, main}}, {50 * kMiB, 6 * kMiB});
  run.model.processes[0].peak_private_bytes = 60 << 20;
  run.model.processes[1].peak_private_bytes = 56 << 20;
  run.model.processes[1].execed = true;
  run.model.processes[1].duty.start = StartMethod::kSpawn;
  run.model.workers_peak = {.bytes = 56 << 20, .fresh_bytes = {{1, 56 << 20}}};
  for (ProcessModel& process : run.model.processes) process.counts.copies = 0;
  REQUIRE(IdsOf(run) == Ids{"private-by-spawn"});
  const Findings findings = Judge(run);
  CHECK(findings.diagnoses[0].saves == Saving{.low = 40 << 20, .best = SavingOf(50 << 20).best, .high = 50 << 20});
  CHECK(findings.diagnoses[0].bytes == findings.peak.pickled);
}

TEST_CASE("growth: earlier reports are thinned out, and the last counts") {
  Run run = Grown({{kWork}}, {1});
  for (int i = 2; i <= 100; ++i) Append({.t = absl::Seconds(i), .growth = {{1, 0, static_cast<uint64_t>(i), 1}}}, &run);
  const GrowthModel& growth = run.model.processes[1].growth.at(0);
  CHECK(growth.before.size() <= GrowthModel::kMost);
  CHECK(growth.pages == 100);
  CHECK(growth.PagesSince(absl::Seconds(100)) < 16);
  CHECK(growth.PagesSince(absl::Seconds(50)) >= 50);
  CHECK(growth.PagesSince(absl::Seconds(50)) < 70);
  CHECK(growth.PagesSince(-absl::Seconds(1)) == 100);
}

TEST_CASE("diagnosis: arguments that were pickled to workers") {
  Run run = Grown({{kGet, kBootstrap}, {kWork, kBootstrap}}, {80 * kMiB, 2 * kMiB});
  run.model.workers_peak = {.bytes = 82 << 20, .fresh_bytes = {{1, 82 << 20}}};
  for (ProcessModel& process : run.model.processes) process.counts.copies = 0;
  run.model.processes[1].framework = Framework::kPool;
  REQUIRE(IdsOf(run) == Ids{"pickled-arguments"});
  CHECK(absl::StrContains(HeadlineOf(run), "sent to 1 worker took about 80.0 MiB in them at the peak"));
  const Findings findings = Judge(run);
  CHECK(findings.peak == PeakSplit{.pickled = 80 << 20, .fresh = 2 << 20});
  // Near miss: the worker allocated as much itself.
  run = Grown({{kGet, kBootstrap}, {kWork, kBootstrap}}, {10 * kMiB, 72 * kMiB});
  run.model.workers_peak = {.bytes = 82 << 20, .fresh_bytes = {{1, 82 << 20}}};
  for (ProcessModel& process : run.model.processes) process.counts.copies = 0;
  CHECK(IdsOf(run) == Ids{"clean"});
}

TEST_CASE("diagnosis: what helps against pickled arguments fits what started the workers") {
  const auto found = [](Framework framework, StartMethod start = StartMethod::kUnknown) {
    Run run = Grown({{kGet, kBootstrap}, {kWork, kBootstrap}}, {80 * kMiB, 2 * kMiB});
    run.model.workers_peak = {.bytes = 82 << 20, .fresh_bytes = {{1, 82 << 20}}};
    for (ProcessModel& process : run.model.processes) process.counts.copies = 0;
    run.model.processes[1].framework = framework;
    run.model.processes[1].duty.start = start;
    REQUIRE(IdsOf(run) == Ids{"pickled-arguments"});
    return DiagnosesOf(run)[0];
  };
  const Diagnosis pool = found(Framework::kPool), celery = found(Framework::kCelery);
  CHECK(absl::StrContains(pool.sketch, "\nITEMS = Packed(load())"));
  CHECK(absl::StrContains(pool.advice[0], "a global that is set before the pool is made"));
  CHECK(absl::StrContains(pool.advice[1], "the pool's initializer"));
  CHECK(celery.sketch.empty());
  CHECK(absl::StrContains(TextOf(celery), "worker_process_init"));
  for (const char* words : {"the pool", "initializer", "functools"})
    CHECK_FALSE(absl::StrContains(TextOf(celery), words));
  CHECK_FALSE(absl::StrContains(TextOf(found(Framework::kFork)), "initializer"));
  for (const StartMethod start : {StartMethod::kSpawn, StartMethod::kForkserver}) {
    const Diagnosis other = found(Framework::kPool, start);
    CHECK(absl::StrContains(other.advice[0], "they inherit no globals"));
    CHECK(absl::StrContains(other.sketch, "Mapped(\"items\")"));
    CHECK_FALSE(absl::StrContains(other.sketch, "ITEMS"));
  }
}

}  // namespace cowprof
