// Leaks, garbage without a collector, mapped files and pickled data, on recordings in which they were planted, and on
// near misses of each. Pages are of 4096 bytes: 256 of them are 1 MiB.
#include <signal.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "judged.h"
#include "model/judge/diagnosis.h"

namespace cowprof {
namespace {

constexpr uint64_t kMiB = 256;  // in pages
constexpr int kSeconds = 40;

// What one worker does; each of `t`, from 0 to 1. It has 10 MiB of its parent's memory, and copies 1 MiB of it.
struct Worker {
  std::function<double(double)> new_mib = [](double) { return 0; };
  std::function<double(double)> file_mib = [](double) { return 8; };
  std::function<double(double)> copied_mib = [](double) { return 1; };
  double private_file_mib = 0;  // of new_mib: first writes to a private file mapping
  double swapped = 0;           // share of new_mib
  uint64_t inherited_mib = 10;
  Cause cause = Cause::kFree;  // of its copies
  std::optional<bool> collector_on = true;
  std::string command = "python train.py";
  int start = 0, end = kSeconds;  // seconds
  int status = 0;
};

Event Start(int index, int parent, const Worker& worker) {
  return {.t = absl::Seconds(worker.start),
          .index = index,
          .what = ProcessStarted{.id = {1000 + index, 7},
                                 .parent = parent,
                                 .origin = index == 0 ? Origin::kTarget : Origin::kForked,
                                 .command = "python train.py"}};
}

ProcessSample RowOf(int index, const Worker& worker, double t) {
  const uint64_t copies = static_cast<uint64_t>(worker.copied_mib(t) * kMiB);
  const uint64_t fresh = static_cast<uint64_t>(worker.new_mib(t) * kMiB);
  ProcessSample row = {.index = index, .causes = CauseCounts{}};
  row.counts = {.write_protect_faults = copies, .copies = copies, .zero_upgrades = 0, .zero_fill_pages = fresh};
  row.counts.file_copies = static_cast<uint64_t>(worker.private_file_mib * t * kMiB);
  row.causes->at(static_cast<int>(worker.cause)) = copies;
  row.proc.swap_pages = static_cast<uint64_t>(fresh * worker.swapped);
  row.proc.anon_pages = worker.inherited_mib * kMiB + fresh - *row.proc.swap_pages;
  row.proc.file_pages = static_cast<uint64_t>(worker.file_mib(t) * kMiB);
  row.collector_on = worker.collector_on;
  return row;
}

// `host_mib`: in use on a host of 24,000 MiB.
Run Recorded(const std::vector<Worker>& workers, Worker parent = {},
             const std::function<double(double)>& host_mib = {}) {
  Run run;
  const auto process = [&](int index) -> const Worker& { return index == 0 ? parent : workers[index - 1]; };
  for (int second = 0; second <= kSeconds; ++second) {
    Sample sample = {.t = absl::Seconds(second)};
    if (host_mib) {
      const double used = host_mib(second / double(kSeconds)) * (1 << 20);
      sample.limits = {{LimitKind::kHost, "host", uint64_t{24'000} << 20, static_cast<uint64_t>(used)}};
    }
    for (int index = 0; index <= static_cast<int>(workers.size()); ++index) {
      const Worker& one = process(index);
      if (second < one.start || second > one.end) continue;
      if (second == one.start) {
        sample.events.push_back(Start(index, index - (index > 0) * index, one));
        if (one.command != "python train.py") {
          sample.events.push_back({.t = sample.t, .index = index, .what = ProcessExeced{.command = one.command}});
        }
      }
      sample.processes.push_back(RowOf(index, one, (second - one.start) / double(one.end - one.start)));
      if (second == one.end && index > 0) {
        sample.events.push_back({.t = sample.t, .index = index, .what = ProcessExited{one.status}});
      }
    }
    Append(sample, &run);
  }
  return run;
}

std::function<double(double)> Line(double from, double to) {
  return [=](double t) { return from + (to - from) * t; };
}

const std::string kSpawned = "python -c from multiprocessing.spawn import spawn_main --multiprocessing-fork";

// A parent that has 200 MiB of its own.
Worker BigParent() { return {.new_mib = Line(200, 200), .command = "python3 train.py"}; }

Worker Pickled(double mib) { return {.new_mib = Line(mib, mib), .command = kSpawned}; }

}  // namespace

TEST_CASE("memory: a leak is one whatever else the worker does, and says how fast") {
  const Run run = Recorded({{.new_mib = Line(0, 80)}, {}});
  REQUIRE(IdsOf(run) == Ids{"new-memory-growth"});
  const Diagnosis found = DiagnosesOf(run)[0];
  CHECK(found.pids == std::vector<pid_t>{1001});
  INFO(TextOf(found));
  CHECK(absl::StrContains(TextOf(found), "2.0 MiB per second"));
  CHECK(absl::StrContains(TextOf(found), "in all it copied 1.0 MiB"));
  // 40 s old: an initializer may load data for as long.
  CHECK(absl::StartsWith(
      found.summary,
      "A leak in the workers, an unbounded cache, or freed memory that the allocator keeps, unless they "
      "still load their data;"));
  Run later = run;
  later.model.processes[1].started -= absl::Minutes(3);
  CHECK(absl::StartsWith(DiagnosesOf(later)[0].summary,
                         "A leak in the workers, an unbounded cache, or freed memory that the allocator keeps; "));
  // The forecast has not seen it yet.
  Findings findings = Judge(run);
  CHECK(absl::StrContains(findings.verdict, "Forecast: "));
  CHECK(findings.forecast.shape == Shape::kUnbounded);
  CHECK(IdsOf(Recorded({{.new_mib = Line(0, 80), .swapped = 0.9}})) == Ids{"new-memory-growth"});
  CHECK(IdsOf(Recorded({{.new_mib = Line(0, 80), .file_mib = Line(8, 200)}})) == Ids{"new-memory-growth"});
}

TEST_CASE("memory: nothing is flat or safe beside a leak that the forecast can't see yet") {
  // 7 MiB in 40 s: a finding, but no trend.
  const Worker leak = {.new_mib = Line(0, 7.4), .end = kSeconds + 1};
  const Run run = Recorded({leak}, {}, Line(1000, 1007));
  const Findings findings = Judge(run);
  REQUIRE(findings.headline.diagnosis == "new-memory-growth");
  REQUIRE(findings.forecast.shape == Shape::kFlat);
  REQUIRE(findings.forecast.outlook == Outlook::kSafe);
  CHECK(absl::EndsWith(findings.verdict, " Forecast: grows, but too slowly or for too short a time to tell how far."));
  const auto json = ReportJsonOf(run)["forecast"];
  CHECK(json["shape"].is_null());
  CHECK(json["verdict"] == "unknown");
  CHECK(json["limits"][0]["verdict"] == "unknown");
  CHECK(json["sentence"] == "grows, but too slowly or for too short a time to tell how far");
  CHECK(json["plateau_bytes"].is_null());
  // Teeth: without the leak it is flat.
  const Findings flat = Judge(Recorded({{.end = kSeconds + 1}}, {}, Line(1000, 1007)));
  CHECK(absl::StrContains(flat.verdict, " Forecast: flat: the workers own "));
  CHECK(flat.forecast_told == flat.forecast);
}

TEST_CASE("memory: what the allocator keeps looks like a leak, and the advice tells them apart") {
  Run run = Recorded({{.new_mib = Line(0, 80)}}, {.new_mib = Line(0, 800)});
  const auto advice = [&](size_t finding, size_t number) { return DiagnosesOf(run)[finding].advice.at(number); };
  REQUIRE(IdsOf(run) == Ids{"new-memory-growth", "trainer-growth"});
  CHECK(absl::StrContains(advice(0, 1), "malloc_trim(0)"));
  CHECK(absl::StrContains(advice(0, 2), "Until it is fixed"));
  CHECK(absl::StrContains(advice(1, 2), "malloc_trim(0)"));
  CHECK(!absl::StrContains(advice(1, 0), "Pool"));
  // Another allocator does not have that call, or does nothing in it.
  run.model.regions = {{0, {.kind = RegionKind::kFile, .name = "libjemalloc.so.2 (bss)"}}};
  CHECK(absl::StrContains(advice(0, 1), "or freed memory that jemalloc keeps"));
  CHECK(!absl::StrContains(advice(0, 1), "malloc_trim"));
  // A library's own allocator, beside malloc, does not heed malloc_trim().
  run.model.regions = {{0, {.kind = RegionKind::kFile, .name = "libarrow.so.2100 (bss)"}}};
  CHECK(absl::StrContains(advice(0, 1), "malloc_trim(0)"));
  CHECK(absl::StrContains(advice(0, 1),
                          "pyarrow.default_memory_pool().release_unused() makes give back what it can; with "
                          "ARROW_DEFAULT_MEMORY_POOL=system"));
  CHECK(absl::EndsWith(advice(0, 1),
                       " If none of this helps, it is C code of a library: close its objects (video readers)."));
  CHECK(!absl::StrContains(advice(0, 1), "polars"));
  run.model.regions = {{0, {.kind = RegionKind::kFile, .name = "_polars_runtime.abi3.so"}}};
  CHECK(absl::StrContains(advice(0, 1), " polars has a jemalloc of its own"));
  run.model.regions = {{0, {.kind = RegionKind::kFile, .name = "libarrow_python.so"}}};
  CHECK(absl::EndsWith(advice(0, 1), " If not, it is C code of a library: close its objects (video readers)."));
  for (ProcessModel& process : run.model.processes) process.framework = Framework::kPool;
  CHECK(absl::StrContains(advice(1, 0), "Pool.imap()"));
  for (ProcessModel& process : run.model.processes) process.framework = Framework::kNative;
  CHECK(!absl::StrContains(TextOf(DiagnosesOf(run)[0]), "tracemalloc"));
}

TEST_CASE("memory: nothing of Python is advised to a program that has none, whatever runs beside it") {
  const auto text = [](Run run, int grower) {
    for (ProcessModel& process : run.model.processes) {
      process.python = process.index == grower ? "" : "3.11.2";
      process.framework = process.index == grower ? Framework::kNative : Framework::kPool;
    }
    const std::string native = TextOf(DiagnosesOf(run)[0]);
    run.model.processes[grower].python = "3.11.2";  // it was looked at as it started
    CHECK(absl::StrContains(TextOf(DiagnosesOf(run)[0]), "tracemalloc"));
    return native;
  };
  const std::string trainer = text(Recorded({{}}, {.new_mib = Line(0, 800)}), 0);
  CHECK(absl::StrContains(trainer, "A heap profiler (heaptrack, jemalloc's) names the place."));
  const std::string worker = text(Recorded({{.new_mib = Line(0, 80)}, {}}), 1);
  CHECK(absl::StrContains(worker, "A heap profiler (heaptrack, jemalloc's) names the place."));
  for (const std::string& one : {trainer, worker}) {
    for (const char* const python : {"tracemalloc", "memray", "Pool", "lru_cache"})
      CHECK(!absl::StrContains(one, python));
  }
}

TEST_CASE("memory: no leak") {
  CHECK(IdsOf(Recorded({{}})) == Ids{"clean"});
  CHECK(IdsOf(Recorded({{.new_mib = [](double t) { return t < 0.1 ? 500 * t : 50; }}})) == Ids{"clean"});
  CHECK(IdsOf(Recorded({{.new_mib = [](double t) { return 20 * (static_cast<int>(40 * t) % 3); }}})) == Ids{"clean"});
  CHECK(IdsOf(Recorded({{.copied_mib = Line(0, 9)}})) == Ids{"clean"});
  CHECK(IdsOf(Recorded({{.new_mib = Line(0, 80), .private_file_mib = 80}})) == Ids{"clean"});
}

TEST_CASE("memory: a leak in the trainer is not one in its workers") {
  const Run run = Recorded({{}}, {.new_mib = Line(0, 800)});
  REQUIRE(IdsOf(run) == Ids{"trainer-growth"});
  const Diagnosis found = DiagnosesOf(run)[0];
  INFO(TextOf(found));
  CHECK(absl::StartsWith(found.summary,
                         "The parent itself keeps growing by new memory, unlike its workers: it allocated "));
  const Run both = Recorded({{.new_mib = Line(0, 80)}}, {.new_mib = Line(0, 800)});
  REQUIRE(IdsOf(both) == Ids{"new-memory-growth", "trainer-growth"});
  CHECK(absl::StrContains(DiagnosesOf(both)[1].summary, " keeps growing, as do its workers: it allocated "));
  CHECK(found.pids == std::vector<pid_t>{1000});
  Run over = run;
  over.model.processes[0].ended = over.model.t;
  CHECK(absl::StartsWith(DiagnosesOf(over)[0].summary, "The parent itself kept growing by new memory, unlike "));
  // Workers that leak in each epoch, and end with it, give that back.
  const Worker epoch = {.new_mib = Line(0, 200), .end = kSeconds / 2};
  const Run epochs = Recorded({epoch, {.new_mib = Line(0, 200), .start = kSeconds / 2}}, {.new_mib = Line(0, 800)});
  CHECK(
      absl::StartsWith(DiagnosesOf(epochs)[0].summary, "The parent itself keeps growing by new memory: it allocated "));
  // It may build what it likes before it forks, take a step, and give memory back.
  CHECK(IdsOf(Recorded({{.start = kSeconds / 2}}, {.new_mib = Line(0, 800)})) == Ids{"clean"});
  CHECK(IdsOf(Recorded({{}}, {.new_mib = [](double t) { return t < 0.2 ? 100 : 700; }})) == Ids{"clean"});
  CHECK(IdsOf(Recorded({{}}, {.new_mib = [](double t) { return 300 * (static_cast<int>(40 * t) % 3); }})) ==
        Ids{"clean"});
  CHECK(IdsOf(Recorded({{}}, {.new_mib = Line(0, 30)})) == Ids{"clean"});
}

TEST_CASE("memory: growth outside the workers is reported, as a leak or as data that is loaded") {
  Run run = Recorded({{}, {.new_mib = Line(0, 800), .command = "python3 other.py"}});
  run.model.processes[2].role = Role::kOther;
  run.model.processes[2].comm = "python3";
  CHECK(IdsOf(run) == Ids{"clean"});
  CHECK(absl::StartsWith(HeadlineOf(run), "The workers share what they should. The process 1002 (python3) allocated "));
  CHECK(absl::EndsWith(
      HeadlineOf(run),
      ", and kept it: a leak, or freed memory that the allocator keeps, unless it still loads its data."));
  run.model.processes[2].duty.duty = Duty::kManager;
  CHECK(absl::StrContains(HeadlineOf(run), " (multiprocessing's Manager) allocated "));
  // One that exited by itself long before the end has given it back.
  run.model.processes[2].exit = Exit{};
  run.model.processes[2].ended = run.model.t / 2;
  CHECK(absl::StartsWith(HeadlineOf(run), "Nothing to do: "));
  run.model.processes[2].exit.reset();
  run.model.processes[2].ended.reset();
  // It has forked a worker soon after it began: what it keeps since is no start.
  run.model.processes[1].parent = 2;
  REQUIRE(IdsOf(run) == Ids{"trainer-growth"});
  CHECK(DiagnosesOf(run)[0].pids == std::vector<pid_t>{1002});
}

TEST_CASE("memory: growth that was seen for a short time may go on") {
  const Worker leaps = {.new_mib = [](double t) { return t < 0.9 ? 20.0 : 80.0; }};
  Run run = Recorded({leaps});
  CHECK(absl::StartsWith(HeadlineOf(run), "Nothing to do: "));  // 40 s were seen
  run.model.processes[1].started = run.model.t - absl::Seconds(8);
  CHECK(absl::StartsWith(HeadlineOf(run), "The workers share what they should. They had at most "));
  CHECK(absl::StrContains(HeadlineOf(run),
                          "; it was rising at the end, and whether it keeps growing can't be told from "));
}

TEST_CASE("memory: a leak and copies are compared by their parts of the same peak") {
  // Copies that end in the first second, and a leak. Each in MiB, of one of two workers.
  const auto of = [](double leaked, double copied, double at_start = 0) {
    const Worker worker = {.new_mib = Line(at_start, at_start + leaked),
                           .copied_mib = [=](double t) { return t < 0.02 ? 1 : copied; },
                           .inherited_mib = 200,
                           .cause = Cause::kRefcount};
    return Recorded({worker, worker});
  };
  const Run run = of(30, 23);
  REQUIRE(IdsOf(run) == Ids{"new-memory-growth", "cow-refcount"});
  const Findings findings = Judge(run);
  CHECK(findings.diagnoses[0].bytes == findings.peak.fresh);
  CHECK(findings.diagnoses[1].bytes == findings.peak.copied);
  CHECK(!findings.diagnoses[0].saves);
  // The border.
  CHECK(IdsOf(of(30, 29.9))[0] == "new-memory-growth");
  CHECK(IdsOf(of(30, 30.1))[0] == "cow-refcount");
  // New memory that did not come by growing is not the leak's.
  CHECK(IdsOf(of(12, 40, 100)) == Ids{"cow-refcount", "new-memory-growth"});
  // Of much new memory, which comes first, no word on growth contradicts the leak's finding.
  const std::string much = HeadlineOf(of(12, 40, 300));
  CHECK(absl::StartsWith(much, "Each of 2 workers had "));
  CHECK(absl::StrContains(much, " MiB together. Reading Python objects duplicated "));
  // The same without a collector.
  const auto without_collector = [](double copied) {
    const Worker worker = {.new_mib = Line(0, 30),
                           .copied_mib = [=](double t) { return t < 0.02 ? 1 : copied; },
                           .inherited_mib = 200,
                           .cause = Cause::kRefcount,
                           .collector_on = false};
    return IdsOf(Recorded({worker, worker}));
  };
  CHECK(without_collector(29.9) == Ids{"gc-disabled", "new-memory-growth", "cow-refcount"});
  CHECK(without_collector(30.1)[0] == "cow-refcount");
}

TEST_CASE("memory: a leak meets a limit only if it is what fills it") {
  const Worker leak = {.new_mib = Line(0, 1640), .end = kSeconds + 1};  // 40 MiB a second, and it lives on
  const Diagnosis own = DiagnosesOf(Recorded({leak}, {}, Line(20'000, 21'600)))[0];
  INFO(own.summary);
  CHECK(own.harm == Harm::kLimit);
  CHECK(absl::StrContains(own.summary, "; the host's memory full in about "));
  // Another program takes 160 MiB a second.
  const Diagnosis beside = DiagnosesOf(Recorded({leak}, {}, Line(15'000, 23'000)))[0];
  INFO(beside.summary);
  CHECK(beside.id == "new-memory-growth");
  CHECK(beside.harm == Harm::kMemory);
  CHECK(!absl::StrContains(beside.summary, "full in"));
}

TEST_CASE("memory: what was cut off within its start-up is not called a leak") {
  // As a torch worker that is killed while it starts: 40 MiB in less than 2 s, and no end of it in sight.
  const auto of = [](absl::Duration step) {
    Run run;
    for (int i = 0; i <= 20; ++i) {
      Sample sample = {.t = step * i, .processes = {RowOf(0, {}, 0), RowOf(1, {.new_mib = Line(0, 40)}, i / 20.)}};
      if (i == 0) sample.events = {Start(0, -1, {}), Start(1, 0, {})};
      if (i == 20) sample.events = {{.t = sample.t, .index = 1, .what = ProcessExited{SIGTERM}}};
      Append(sample, &run);
    }
    return IdsOf(run);
  };
  CHECK(of(absl::Milliseconds(80)) == Ids{"clean"});
  CHECK(of(absl::Milliseconds(400)) == Ids{"new-memory-growth"});
}

TEST_CASE("memory: the border of what is noise") {
  // 5/6 of the last three quarters are looked at.
  CHECK(IdsOf(Recorded({{.new_mib = Line(0, 6)}})) == Ids{"clean"});
  CHECK(IdsOf(Recorded({{.new_mib = Line(0, 7)}})) == Ids{"new-memory-growth"});
}

TEST_CASE("memory: workers that end after each epoch give back what they took") {
  std::vector<Worker> epochs;
  for (int epoch = 0; epoch < 4; ++epoch)
    epochs.push_back({.new_mib = Line(0, 80), .start = 10 * epoch, .end = 10 * epoch + 10});
  epochs[3].end = 50;  // the one that lives
  CHECK(IdsOf(Recorded({epochs[0], epochs[1], epochs[2]})) == Ids{"clean"});
  epochs[1].status = SIGKILL;
  CHECK(DiagnosesOf(Recorded({epochs[0], epochs[1], epochs[2]}))[0].pids == std::vector<pid_t>{1002});
  CHECK(DiagnosesOf(Recorded({epochs[0], epochs[2], epochs[3]}))[0].pids == std::vector<pid_t>{1003});
}

TEST_CASE("memory: workers that their parent ends give back what they took") {
  std::vector<Worker> pools;
  for (int pool = 0; pool < 4; ++pool)
    pools.push_back({.new_mib = Line(0, 80), .start = 10 * pool, .end = 10 * pool + 10, .status = SIGTERM});
  CHECK(IdsOf(Recorded(pools)) == Ids{"clean"});
  // The last pool still runs: it alone grows.
  std::vector<Worker> running = pools;
  running[3].end = kSeconds + 10;
  CHECK(DiagnosesOf(Recorded(running))[0].pids == std::vector<pid_t>{1004});
  // SIGKILL is an end like any other only if the parent sent it (Process.kill(), loky).
  for (Worker& worker : pools) worker.status = SIGKILL;
  Run killed = Recorded(pools);
  CHECK(DiagnosesOf(killed)[0].pids == std::vector<pid_t>{1001, 1002, 1003, 1004});
  for (int index = 1; index <= 4; ++index) {
    killed.model.processes[index].signals = {{.t = *killed.model.processes[index].ended,
                                              .index = index,
                                              .what = SignalSent{.signal = SIGKILL, .code = SI_USER, .sender = 1000}}};
  }
  CHECK(IdsOf(killed) == Ids{"clean"});
}

TEST_CASE("memory: the collector is to blame where it is off and memory grows") {
  const auto with = [](std::optional<bool> on, double mib, std::optional<bool> parent) {
    return Recorded({{.new_mib = Line(0, mib), .collector_on = on}}, {.collector_on = parent});
  };
  CHECK(IdsOf(with(false, 80, false)) == Ids{"gc-disabled", "new-memory-growth"});
  CHECK(IdsOf(with(false, 1, false)) == Ids{"clean"});
  CHECK(IdsOf(with(true, 80, false)) == Ids{"new-memory-growth"});
  CHECK(IdsOf(with(std::nullopt, 80, false)) == Ids{"new-memory-growth"});
  CHECK(absl::StrContains(TextOf(DiagnosesOf(with(false, 80, false))[0]), "inherited"));
  CHECK(absl::StrContains(TextOf(DiagnosesOf(with(false, 80, true))[0]), "the workers turned it off"));
  CHECK_FALSE(absl::StrContains(TextOf(DiagnosesOf(with(false, 80, std::nullopt))[0]), "parent:"));
}

TEST_CASE("memory: another program begins with an unknown collector and no history") {
  Run run = Recorded({{.new_mib = Line(0, 80), .collector_on = false}});
  run.model.processes[1].ended.reset();
  run.model.processes[1].persistent = true;
  Append({.t = absl::Seconds(41), .events = {{.t = absl::Seconds(41), .index = 1, .what = ProcessExeced{}}}}, &run);
  CHECK(IdsOf(run) == Ids{"clean"});
  CHECK_FALSE(run.model.processes[1].collector_on);
  CHECK_FALSE(run.model.processes[1].persistent);
}

TEST_CASE("memory: mapped files are no leak, and no private memory is a mapped file") {
  CHECK(IdsOf(Recorded({{.file_mib = Line(8, 200)}})) == Ids{"file-backed"});
  // Read before it was first seen: the parent, which has not read it, tells.
  CHECK(IdsOf(Recorded({{.file_mib = Line(200, 200)}})) == Ids{"file-backed"});
  CHECK(IdsOf(Recorded({{.file_mib = Line(200, 200)}}, {.file_mib = Line(200, 200)})) == Ids{"clean"});
  CHECK(IdsOf(Recorded({{}}, {.file_mib = Line(8, 200), .command = "python3 train.py"})) == Ids{"file-backed"});
  Run failed = Recorded({{.file_mib = Line(8, 200)}});
  Append({.t = absl::Seconds(41), .events = {{.t = absl::Seconds(41), .index = 0, .what = ProcessExited{SIGABRT}}}},
         &failed);
  CHECK(IdsOf(failed) == Ids{"file-backed"});
  CHECK(absl::StartsWith(HeadlineOf(failed),
                         "The parent 1000 was killed by SIGABRT. The resident size grows, by pages of mapped files"));
  // Beside what may explain the end of a child, which comes first then.
  const auto beside_hazard = [](int index) {
    Run run = Recorded({{.file_mib = Line(8, 200)}, {.end = kSeconds + 1}});
    Append({.t = absl::Seconds(41),
            .events = {{.index = 0, .what = ForkHazardSeen{.child = 1, .threads = {{.name = "tqdm", .python = true}}}},
                       {.t = absl::Seconds(41), .index = index, .what = ProcessExited{SIGABRT}}}},
           &run);
    run.model.processes[0].forks = 2;
    CHECK(absl::StrContains(HeadlineOf(run), " was killed by SIGABRT"));
    return IdsOf(run);
  };
  CHECK(beside_hazard(0) == Ids{"file-backed", "fork-hazard"});
  CHECK(beside_hazard(2) == Ids{"fork-hazard", "file-backed"});
  CHECK(IdsOf(Recorded({{.file_mib = Line(8, 39)}})) == Ids{"clean"});
  CHECK(IdsOf(Recorded({{.file_mib = Line(8, 41)}})) == Ids{"file-backed"});
  // Libraries that are imported bring as much memory of their own.
  const auto import = [](double t) { return t < 0.1 ? 8 + 1040 * t : 112; };
  CHECK(IdsOf(Recorded({{.new_mib = import, .file_mib = import}})) == Ids{"clean"});
  CHECK(IdsOf(Recorded({{.new_mib = import, .file_mib = import, .command = kSpawned}}, BigParent())) == Ids{"clean"});
  const Diagnosis alone = DiagnosesOf(Recorded({{.file_mib = Line(8, 200)}}))[0];
  CHECK(absl::StrContains(alone.summary, "(numpy.memmap, LMDB, Arrow, safetensors)"));
  CHECK(absl::EndsWith(alone.advice[0],
                       "before it kills anything. Kubernetes' evictions count those that are read again "
                       "and again (active_file)."));
  // Beside a limit that will be met, the sentence begins with that.
  const Worker reads = {.file_mib = Line(8, 200), .end = kSeconds + 1};
  const Diagnosis beside = DiagnosesOf(Recorded({reads}, {}, Line(15'000, 23'000)))[0];
  INFO(beside.summary);
  CHECK(absl::StartsWith(beside.summary, "The host's memory (23.4 GiB) will be full in about "));
  CHECK(absl::StrContains(beside.summary, " MiB/s. The resident size grows, by pages of mapped files"));
  Run dead = Recorded({reads, {.end = kSeconds + 1}}, {}, Line(15'000, 23'000));
  dead.model.processes[2].ended = dead.model.t;
  dead.model.processes[2].exit = Exit{.signaled = true, .code = 128 + SIGSEGV, .signal = SIGSEGV};
  CHECK(absl::StrContains(HeadlineOf(dead), " was killed by SIGSEGV. The host's memory (23.4 GiB) will be full in "));
  // That of a finding which comes first tells of it.
  const Worker leaks = {.new_mib = Line(8, 600), .end = kSeconds + 1};
  const std::vector<Diagnosis> both = DiagnosesOf(Recorded({reads}, leaks, Line(15'000, 23'000)));
  REQUIRE(both.size() == 2);
  CHECK(both[0].id == "trainer-growth");
  CHECK(absl::StartsWith(both[1].summary, "The resident size grows, by pages of mapped files"));
  // Neither is there nothing to do beside workers with much of their own.
  const Worker loads = {.new_mib = [](double t) { return t < 0.1 ? 0 : 100; }};
  const Diagnosis others = DiagnosesOf(Recorded({{.file_mib = Line(8, 200)}, loads, loads, loads, loads}))[0];
  INFO(others.summary);
  CHECK(absl::StartsWith(others.summary, "The resident size grows, by pages of mapped files"));
  CHECK(
      absl::StrContains(others.summary, " 4 of 5 workers had 100.0 MiB or more of new memory of their own, 400.0 MiB"));
  // Nor beside workers that each copied or hold little, but all together much.
  const auto words = [](size_t workers, const Worker& worker) {
    const Run run = Recorded(std::vector<Worker>(workers, worker));
    REQUIRE(IdsOf(run) == Ids{"file-backed"});
    return HeadlineOf(run);
  };
  const Worker copies = {.file_mib = Line(8, 200), .copied_mib = Line(12, 12), .inherited_mib = 40};
  CHECK(absl::StartsWith(words(20, copies), "Nothing to do: what grows is the resident size"));
  CHECK(absl::StartsWith(words(24, copies), "The resident size grows, by pages of mapped files"));
  CHECK(absl::EndsWith(words(24, copies),
                       ": not a leak. Each worker copied little, at most 12.0 MiB, but all together 288.0 MiB."));
  const Worker has_some = {.new_mib = [](double t) { return t < 0.1 ? 0 : 30; }, .file_mib = Line(8, 200)};
  CHECK(absl::StartsWith(words(4, has_some), "Nothing to do: what grows is the resident size"));
  CHECK(absl::StartsWith(words(12, has_some), "The resident size grows, by pages of mapped files"));
  // Beside a finding on copies no worker is said to have copied little.
  const Worker reads_much = {
      .file_mib = Line(8, 800), .copied_mib = Line(100, 100), .inherited_mib = 200, .cause = Cause::kRefcount};
  const std::vector<Diagnosis> beside_copies = DiagnosesOf(Recorded(std::vector<Worker>(4, reads_much)));
  REQUIRE(beside_copies.size() == 2);
  CHECK(beside_copies[0].id == "cow-refcount");
  CHECK(absl::StartsWith(beside_copies[1].summary, "The resident size grows, by pages of mapped files"));
  CHECK(absl::EndsWith(beside_copies[1].summary, ": not a leak."));
  const Worker grows = {.new_mib = Line(200, 230)};
  const std::vector<Diagnosis> beside_leak = DiagnosesOf(Recorded({{.file_mib = Line(8, 200)}, grows, grows}));
  REQUIRE(beside_leak.size() == 2);
  CHECK(beside_leak[0].id == "new-memory-growth");
  CHECK(absl::StrContains(beside_leak[1].summary, " 2 of 3 workers had "));
  CHECK_FALSE(absl::StrContains(beside_leak[1].summary, "no lasting growth"));
}

TEST_CASE("memory: workers that were spawned with much data") {
  const Run run = Recorded({Pickled(150), Pickled(150)}, BigParent());
  REQUIRE(IdsOf(run) == Ids{"private-by-spawn"});
  const Diagnosis found = DiagnosesOf(run)[0];
  INFO(TextOf(found));
  CHECK(found.pids == std::vector<pid_t>{1001, 1002});
  CHECK(absl::StrContains(found.summary, "160.0 MiB each in 2 workers"));
  CHECK(absl::StrContains(found.summary, "spawn start method"));
  // Forkserver: what it forks has its command line, and owns what is new.
  Worker server = {.command = "python -c from multiprocessing.forkserver import main; main(8)"};
  Run served = Recorded({server, {.new_mib = Line(150, 150)}}, BigParent());
  served.model.processes[2].duty.start = StartMethod::kForkserver;
  REQUIRE(IdsOf(served) == Ids{"private-by-spawn"});
  CHECK(absl::StrContains(DiagnosesOf(served)[0].summary, "forkserver start method"));
}

TEST_CASE("memory: a worker that is seen while it loads what it was sent, or imports, does not leak") {
  const Frame main = {"/usr/lib/python3.11/multiprocessing/spawn.py", "_main", 126},
              command = {"<string>", "<module>", 1}, work = {"/home/me/train.py", "work", 36},
              import = {"<frozen importlib._bootstrap>", "_find_and_load", 1027},
              bootstrap = {"/usr/lib/python3.11/multiprocessing/process.py", "_bootstrap", 314};
  // Touches new memory at a steady rate for as long as it is seen, `share` of it with the first stack.
  const auto grows = [](std::vector<Frame> first, std::vector<Frame> second, double share, Worker worker) {
    worker.new_mib = Line(0, 80);
    Run run = Recorded({worker}, BigParent());
    for (const std::vector<Frame>& stack : {first, second}) {
      GrowthSite& site = run.model.growth_sites.emplace_back();
      for (const Frame& frame : stack) {
        site.frames.push_back(static_cast<int>(run.model.frames.size()));
        run.model.frames.push_back(frame);
      }
    }
    for (int second = 0; second <= kSeconds; ++second) {
      const double pages = 80.0 * kMiB * second / kSeconds;
      auto& growth = run.model.processes[1].growth;
      growth[0].Append(absl::Seconds(second), static_cast<uint64_t>(pages * share));
      growth[1].Append(absl::Seconds(second), static_cast<uint64_t>(pages * (1 - share)));
    }
    return run;
  };
  const std::vector<Frame> own = {work, bootstrap, main, command};
  CHECK(IdsOf(grows({main, command}, own, 1, Pickled(0))) == Ids{"private-by-spawn"});
  for (const Worker& worker : {Pickled(0), Worker{}}) {
    Run imports = grows({import, work, bootstrap, main, command}, own, 1, worker);
    CHECK(IdsOf(imports) == Ids{"new-memory-growth"});  // 40 s: a module may be a job
    imports.model.processes[1].started += absl::Seconds(15);
    CHECK(IdsOf(imports) == Ids{"clean"});
    CHECK(absl::StrContains(HeadlineOf(imports), "whether it keeps growing can't be told"));
  }
  // The growth beside that is told: 20 of 50 MiB, or somewhat less, since earlier reports are thinned out.
  const Run both = grows({main, command}, own, 0.6, Pickled(0));
  REQUIRE(IdsOf(both) == Ids{"private-by-spawn", "new-memory-growth"});
  CHECK(absl::StrContains(DiagnosesOf(both)[1].summary, "11.6 MiB in 1 worker within 25.0 s"));
  CHECK(DiagnosesOf(both)[1].culprit->frame == work);
  // Near misses: its own line; a program that does all of its work below an import, and forks there.
  const Run leak = grows({main, command}, own, 0, Pickled(0));
  REQUIRE(IdsOf(leak) == Ids{"new-memory-growth"});
  CHECK(DiagnosesOf(leak)[0].culprit->frame == work);
  CHECK(IdsOf(grows({work, import, command}, own, 1, {})) == Ids{"new-memory-growth"});
  CHECK(IdsOf(grows({work, bootstrap, work, import, command}, own, 1, {})) == Ids{"new-memory-growth"});
}

TEST_CASE("memory: near misses of spawning with much data") {
  // Forked; with little; with what a library takes; more than the program ever had.
  CHECK(IdsOf(Recorded({{.new_mib = Line(150, 150)}}, BigParent())) == Ids{"clean"});
  CHECK(IdsOf(Recorded({Pickled(20)}, BigParent())) == Ids{"clean"});
  Worker imports = Pickled(112);
  imports.file_mib = Line(111, 111);
  CHECK(IdsOf(Recorded({imports}, BigParent())) == Ids{"clean"});
  CHECK(IdsOf(Recorded({Pickled(600)}, BigParent())) == Ids{"clean"});
  // It came later, or by copies.
  Worker grows = Pickled(0);
  grows.new_mib = Line(0, 400);
  CHECK(IdsOf(Recorded({grows}, BigParent())) == Ids{"new-memory-growth"});
  Worker copies = Pickled(150);
  copies.copied_mib = Line(100, 100);
  CHECK(IdsOf(Recorded({copies}, BigParent())).empty());  // not clean: it copied, if not what it inherited
}

TEST_CASE("memory: of many workers a few are told one by one, the largest first") {
  std::vector<Worker> workers;
  for (int i = 0; i < 20; ++i) workers.push_back({.new_mib = Line(0, 80 + i)});
  const Diagnosis found = DiagnosesOf(Recorded(workers))[0];
  CHECK(found.pids.size() == 20);
  CHECK(found.pids[0] == 1020);
  REQUIRE(found.evidence.size() == 5);
  CHECK(absl::StartsWith(found.evidence[0], "pid 1020: "));
  CHECK(found.evidence[4] == "and 16 more");
}

TEST_CASE("memory: is told where causes are not known; clean only what copied next to nothing") {
  Run run = Recorded({{.new_mib = Line(0, 80)}});
  for (ProcessModel& process : run.model.processes) process.causes.reset();
  CHECK(IdsOf(run) == Ids{"new-memory-growth"});
  run.estimates.memory.erase(1);
  CHECK(IdsOf(run) == Ids{"clean"});
  run.model.processes[1].counts.copies = 5000;
  CHECK(IdsOf(run).empty());
}

}  // namespace cowprof
