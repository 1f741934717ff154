// Each diagnosis on a recording in which it was planted, and on those in which the contract forbids it (the report's
// contract, "must not fire when"). Pages are of 4096 bytes, so that 4096 of them are the 16 MiB below which nothing is
// a finding.
#include "model/judge/diagnosis.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "builders.h"
#include "judged.h"
#include "model/format.h"
#include "random_recording.h"

namespace cowprof {
namespace {

constexpr uint64_t kNoise = 4096;      // pages
constexpr uint64_t kRewritten = 1024;  // pages that a parent always writes after a fork

// A target, whose copies are `parent`, and forked workers.
Run With(const ByCause& parent, const std::vector<ByCause>& workers) {
  Run run;
  Sample sample = {.events = {Started(0, -1, "python train.py")}, .processes = {RowByCause(0, parent)}};
  for (size_t i = 0; i < workers.size(); ++i) {
    sample.events.push_back(Started(i + 1, 0, "python train.py"));
    sample.processes.push_back(RowByCause(i + 1, workers[i]));
  }
  Append(sample, &run);
  run.model.processes[0].forks = workers.size();
  if (!workers.empty()) run.model.processes[0].at_first_fork = CopiesSoFar{};
  return run;
}
Run OneWorker(const ByCause& copies) { return With({}, {copies}); }

Diagnosis Find(const Run& run, const std::string& id) {
  for (const Diagnosis& diagnosis : DiagnosesOf(run)) {
    if (diagnosis.id == id) return diagnosis;
  }
  FAIL("no " << id << " but " << absl::StrJoin(IdsOf(run), " "));
  return {};
}

// Adds a place for all of worker 1's copies of a cause.
void AddCopySite(Run* run, const CopySite& copy_site, uint64_t copies, uint64_t each = 1) {
  const int number = static_cast<int>(run->model.copy_sites.size());
  run->model.copy_sites.push_back(copy_site);
  run->model.processes[1].copy_sites[number] = {1, number, copies, copies / each, copies * each};
}

}  // namespace

TEST_CASE("diagnosis: each cause has its own, and none of the others") {
  CHECK(IdsOf(OneWorker({{Cause::kRefcount, 5000}})) == Ids{"cow-refcount"});
  CHECK(IdsOf(OneWorker({{Cause::kGcHeader, 5000}})) == Ids{"cow-gc-header"});
  CHECK(IdsOf(OneWorker({{Cause::kData, 5000}})) == Ids{"cow-data"});
  CHECK(IdsOf(OneWorker({{Cause::kKernel, 5000}})) == Ids{"cow-data"});
  CHECK(IdsOf(OneWorker({{Cause::kMallocReuse, 5000}})) == Ids{"allocator-reuse"});
  CHECK(IdsOf(With({{Cause::kRefcount, 5000}}, {{}})) == Ids{"parent-unshare"});
}

TEST_CASE("diagnosis: memory that was free saves nothing, and is a part of the peak of its own") {
  const Run run = OneWorker({{Cause::kMallocReuse, 30'000}, {Cause::kData, 10'000}});
  const Diagnosis diagnosis = Find(run, "allocator-reuse");
  CHECK(diagnosis.saves == Saving{});
  CHECK(diagnosis.summary ==
        "Allocating memory that the parent had freed before the fork duplicated 117.2 MiB of the parent's memory in 1 "
        "worker.");
  const Findings findings = Judge(run);
  CHECK(findings.peak.inherited_freed == diagnosis.bytes);
  CHECK(findings.peak.copied + findings.peak.inherited_freed == run.model.workers_peak.copied_bytes);
  // Near miss: below noise in each worker.
  CHECK(IdsOf(OneWorker({{Cause::kMallocReuse, kNoise}})) == Ids{"clean"});
}

TEST_CASE("diagnosis: causes that nothing is said of are no finding, no other one's, and not clean either") {
  for (const Cause cause : {Cause::kAllocator, Cause::kBytecode, Cause::kHash, Cause::kFree, Cause::kUnknown}) {
    INFO(NameOf(cause));
    CHECK(IdsOf(OneWorker({{cause, kNoise}})) == Ids{"clean"});
    CHECK(IdsOf(OneWorker({{cause, 5000}})).empty());
  }
  const Headline headline = Judge(OneWorker({{Cause::kFree, 6000}, {Cause::kHash, 4000}})).headline;
  CHECK(headline.diagnosis == "unknown");
  CHECK(headline.sentence ==
        "1 worker copied 39.1 MiB of inherited memory: 60 % released objects, 40 % cached hashes.");
}

TEST_CASE("diagnosis: reference counts do not fire where something else grows") {
  // The contract: not when the growth is GC, data writes or new memory.
  CHECK(IdsOf(OneWorker({{Cause::kGcHeader, 50'000}, {Cause::kRefcount, 4000}})) == Ids{"cow-gc-header"});
  CHECK(IdsOf(OneWorker({{Cause::kData, 50'000}, {Cause::kRefcount, 4000}})) == Ids{"cow-data"});
  Run grows = OneWorker({{Cause::kRefcount, 200}});
  grows.model.processes[1].counts.zero_fill_pages = 1'000'000;
  CHECK(IdsOf(grows) == Ids{"clean"});
}

TEST_CASE("diagnosis: the collector does not fire where reference counts grow, and the advice says what freeze does") {
  const Run run = OneWorker({{Cause::kRefcount, 50'000}, {Cause::kGcHeader, 4000}});
  CHECK(IdsOf(run) == Ids{"cow-refcount"});
  CHECK(absl::StrContains(TextOf(Find(run, "cow-refcount")), "gc.freeze() does not help"));
  const std::string collector = TextOf(Find(OneWorker({{Cause::kGcHeader, 50'000}}), "cow-gc-header"));
  CHECK(absl::StrContains(collector, "gc.freeze() in the parent before it forks the workers"));
  // Each freeze keeps in the parent the cycles that are alive then.
  CHECK(absl::StrContains(collector, "gc.unfreeze() when these workers have ended"));
}

TEST_CASE(
    "diagnosis: what a forkserver's workers inherited is the forkserver's, and so is what is done before the fork") {
  const auto served = [](size_t some, const ByCause& copies) {
    Run run = With({}, {copies, copies, copies});
    for (size_t i = 1; i <= some; ++i) run.model.processes[i].duty.start = StartMethod::kForkserver;
    return run;
  };
  const Diagnosis collector = Find(served(3, {{Cause::kGcHeader, 50'000}}), "cow-gc-header");
  CHECK(absl::StrContains(collector.summary, " of the forkserver's memory in 3 workers"));
  CHECK(absl::StrContains(collector.advice[0],
                          "gc.freeze() at the end of the last module that multiprocessing.set_forkserver_preload()"));
  CHECK_FALSE(absl::StrContains(TextOf(collector), "parent"));
  CHECK_FALSE(absl::StrContains(TextOf(collector), "unfreeze"));  // it runs nothing that would make cycles
  CHECK(collector.sketch.empty());
  const Diagnosis freed = Find(served(2, {{Cause::kMallocReuse, 50'000}}), "allocator-reuse");
  CHECK(absl::StartsWith(freed.summary, "Allocating memory that the forkserver had freed before the fork"));
  CHECK(absl::StrContains(freed.advice[1], "malloc_trim(0) at the end of the last module"));
  CHECK(freed.sketch.empty());
  const Diagnosis reading = Find(served(3, {{Cause::kRefcount, 50'000}}), "cow-refcount");
  CHECK_FALSE(absl::StrContains(TextOf(reading), "start method"));
  CHECK_FALSE(reading.sketch.empty());
  // What the target itself copies is not the forkserver's.
  Run both = With({{Cause::kRefcount, 50'000}}, {{{Cause::kRefcount, 50'000}}});
  both.model.processes[1].duty.start = StartMethod::kForkserver;
  CHECK(absl::StartsWith(Find(both, "parent-unshare").summary, "The parent itself duplicated"));
  // Most workers were forked by the program.
  const Diagnosis forked = Find(served(1, {{Cause::kGcHeader, 50'000}}), "cow-gc-header");
  CHECK(absl::StrContains(forked.summary, " of the parent's memory"));
  CHECK_FALSE(forked.sketch.empty());
}

TEST_CASE("diagnosis: another start method is spoken of only where there is one") {
  Run run = OneWorker({{Cause::kRefcount, 50'000}});
  const auto advice = [&] { return absl::StrJoin(Find(run, "cow-refcount").advice, "\n"); };
  for (const auto& [framework, spawns] : {std::pair(Framework::kDataLoader, true),
                                          {Framework::kPool, true},
                                          {Framework::kExecutor, true},
                                          {Framework::kGunicorn, false},
                                          {Framework::kCelery, false},
                                          {Framework::kFork, false}}) {
    INFO(NameOf(framework));
    run.model.processes[1].framework = framework;
    CHECK(absl::StrContains(advice(), "`cowprof pickle PID --object NAME`") == spawns);
  }
  // multiprocessing.Process, by a stack.
  run.model.frames = {{"/usr/lib/python3.11/multiprocessing/process.py", "BaseProcess._bootstrap", 314}};
  CHECK(absl::StrContains(advice(), "`cowprof pickle PID --object NAME`"));
  // An object that could be sent, in a server whose workers can't be spawned.
  run.model.start_methods = SeenStartMethods{
      .t = {}, .index = 0, .look = {.root = "pool", .walks_agree = true, .bytes = {1 << 20, 1 << 20, 1 << 20}}};
  CHECK(absl::StrContains(advice(), "Other start methods share nothing"));
  run.model.processes[1].framework = Framework::kGunicorn;
  CHECK_FALSE(absl::StrContains(advice(), "start methods"));
}

TEST_CASE("diagnosis: what a launcher would send to its trainer is not what the trainer's workers would be sent") {
  Run run = With({}, {{}, {{Cause::kRefcount, 50'000}}});
  run.model.processes[2].framework = Framework::kPool;
  run.model.start_methods =
      SeenStartMethods{.t = {}, .index = 0, .look = {.root = "p", .walks_agree = true, .bytes = {408, 408, 408}}};
  const auto advice = [&] { return absl::StrJoin(Find(run, "cow-refcount").advice, "\n"); };
  CHECK(absl::StrContains(advice(), "would send about 408 B to each worker"));
  run.model.processes[2].parent = 1;
  CHECK_FALSE(absl::StrContains(advice(), "408 B"));
  CHECK(absl::StrContains(Find(run, "cow-refcount").summary,
                          " duplicated 195.3 MiB of worker 1001's memory in 1 of 2 workers"));
}

TEST_CASE("diagnosis: releasing what was inherited is advised against, beside what is written, and to programs in C") {
  const std::string beside = TextOf(Find(OneWorker({{Cause::kData, 10'000}, {Cause::kFree, 30'000}}), "cow-data"));
  CHECK(absl::StrContains(beside, "\nReleasing inherited objects gives nothing back"));
  CHECK_FALSE(absl::StrContains(TextOf(Find(OneWorker({{Cause::kData, 10'000}}), "cow-data")), "Releasing"));
  Run native = OneWorker({{Cause::kData, 10'000}});
  for (ProcessModel& process : native.model.processes) process.framework = Framework::kNative;
  CHECK(absl::StrContains(Find(native, "cow-data").advice[1], "_exit(2)"));
}

TEST_CASE("diagnosis: nothing is advised that the program's Python does not have") {
  for (const char* version : {"3.6.15", "3.7.17", "3.11.2", ""}) {
    INFO(version);
    const bool old = version == std::string("3.6.15");
    Run run = OneWorker({{Cause::kGcHeader, 50'000}, {Cause::kData, 50'000}});
    run.model.processes[0].python = version;
    const Diagnosis collector = Find(run, "cow-gc-header");
    for (const char* function : {"gc.freeze()", "gc.unfreeze()"})
      CHECK(absl::StrContains(TextOf(collector), function) != old);
    CHECK(absl::StrContains(TextOf(collector), "gc.disable() in the workers"));
    CHECK(collector.sketch.empty() == old);
    const std::string written = TextOf(Find(run, "cow-data"));
    CHECK(absl::StrContains(written, "multiprocessing.RawArray") == (old || version == std::string("3.7.17")));
    for (const Remedy& remedy : Judge(run).remedies) CHECK((remedy.id != "gc-freeze" || !old));
  }
}

TEST_CASE("diagnosis: several at once, the largest first") {
  CHECK(IdsOf(OneWorker({{Cause::kRefcount, 20'000}, {Cause::kGcHeader, 70'000}, {Cause::kData, 10'000}})) ==
        Ids{"cow-gc-header", "cow-refcount", "cow-data"});
  CHECK(IdsOf(OneWorker({{Cause::kRefcount, 60'000}, {Cause::kGcHeader, 40'000}})) ==
        Ids{"cow-refcount", "cow-gc-header"});
  for (const Diagnosis& diagnosis : DiagnosesOf(OneWorker({{Cause::kRefcount, 1'000'000}}))) {
    CHECK((diagnosis.confidence > 0 && diagnosis.confidence <= 1));
  }
}

TEST_CASE("diagnosis: the border of what is noise, for one worker") {
  const Cause cause = GENERATE(Cause::kRefcount, Cause::kGcHeader, Cause::kData, Cause::kKernel);
  INFO(NameOf(cause));
  CHECK(IdsOf(OneWorker({{cause, kNoise}})) == Ids{"clean"});
  CHECK(IdsOf(OneWorker({{cause, kNoise + 1}})) != Ids{"clean"});
  // Of all that the worker copied, less than 8 MiB for this cause is not a finding.
  CHECK(IdsOf(OneWorker({{cause, kNoise / 2 - 1}, {Cause::kFree, 3000}})).empty());
  CHECK(IdsOf(OneWorker({{cause, kNoise / 2}, {Cause::kFree, 3000}})).size() == 1);
}

TEST_CASE("diagnosis: the border of what is noticeable") {
  const Cause cause = GENERATE(Cause::kRefcount, Cause::kGcHeader, Cause::kData);
  INFO(NameOf(cause));
  CHECK(IdsOf(OneWorker({{cause, 9'999}, {Cause::kFree, 90'001}})).empty());
  CHECK(IdsOf(OneWorker({{cause, 10'000}, {Cause::kFree, 90'000}})).size() == 1);
}

TEST_CASE("diagnosis: bytes count, not pages") {
  Run run = OneWorker({{Cause::kRefcount, 300}});
  CHECK(IdsOf(run) == Ids{"clean"});
  run.model.info.page_bytes = 65'536;
  CHECK(IdsOf(run) == Ids{"cow-refcount"});
}

// Each interpreter copies a few hundred pages by starting to run: many workers that do only that are clean.
TEST_CASE("diagnosis: many workers that copy next to nothing are clean") {
  const std::vector<ByCause> workers(128, ByCause{{Cause::kRefcount, 300}, {Cause::kData, 200}});
  CHECK(IdsOf(With({}, workers)) == Ids{"clean"});
  // One that copies more does not make noise of the others a finding about it.
  std::vector<ByCause> and_one = workers;
  and_one.push_back({{Cause::kData, 60'000}});
  CHECK(Find(With({}, and_one), "cow-data").pids == std::vector<pid_t>{1129});
  CHECK(IdsOf(With({}, and_one)) == Ids{"cow-data"});
}

TEST_CASE("diagnosis: one worker just above noise makes no finding of what many others copied") {
  std::vector<ByCause> workers(79, ByCause{{Cause::kRefcount, 2560}});
  workers.push_back({{Cause::kRefcount, kNoise}});
  CHECK(IdsOf(With({}, workers)) == Ids{"clean"});
  workers.back() = ByCause{{Cause::kRefcount, 4200}};
  const Run run = With({}, workers);
  CHECK(IdsOf(run).empty());  // not clean, either
  CHECK(HeadlineOf(run) == "1 of 80 workers copied 16.4 MiB of inherited memory: 100 % reference counts.");
  // Of several, no one's line is that of all.
  workers[0] = ByCause{{Cause::kRefcount, 3200}, {Cause::kFree, 1000}};
  CHECK(HeadlineOf(With({}, workers)) ==
        "2 of 80 workers copied 32.8 MiB of inherited memory: 88 % reference counts, 12 % released objects.");
  // Where it copied a tenth of all or more, it is a finding.
  workers = std::vector<ByCause>(9, ByCause{{Cause::kRefcount, 2560}});
  workers.push_back({{Cause::kRefcount, 4200}});
  CHECK(IdsOf(With({}, workers)) == Ids{"cow-refcount"});
}

TEST_CASE("diagnosis: files and system calls are no finding by what workers below noise copied") {
  for (uint64_t ProcessModel::*copies : {&ProcessModel::gup_copies, &ProcessModel::copies_of_files}) {
    Run run = With({}, {{{Cause::kRefcount, 60'000}}, {{Cause::kData, 4000}}, {{Cause::kData, 4000}}});
    for (const int index : {2, 3}) run.model.processes[index].*copies = 4000;
    CHECK(IdsOf(run) == Ids{"cow-refcount"});
    run.model.processes[1].causes = CauseCounts{};
    (*run.model.processes[1].causes)[static_cast<int>(Cause::kData)] = 60'000;
    run.model.processes[1].*copies = 60'000;
    CHECK(IdsOf(run) == Ids{"cow-data"});
  }
}

TEST_CASE("diagnosis: pids are those that copied more than noise") {
  const Run run = With({}, {{{Cause::kRefcount, 5000}}, {{Cause::kRefcount, 30}}, {{Cause::kRefcount, 9000}}});
  CHECK(Find(run, "cow-refcount").pids == std::vector<pid_t>{1001, 1003});
}

TEST_CASE("diagnosis: pids are those of the cause") {
  const Run run = With({}, {{{Cause::kRefcount, 50'000}, {Cause::kData, 40}},
                            {{Cause::kData, 30'000}, {Cause::kKernel, 20'000}},
                            {{Cause::kRefcount, 9000}, {Cause::kKernel, 1000}}});
  CHECK(Find(run, "cow-refcount").pids == std::vector<pid_t>{1001, 1003});
  CHECK(Find(run, "cow-data").pids == std::vector<pid_t>{1002, 1003});
}

TEST_CASE("diagnosis: noise is what a worker copies, however many there are") {
  const auto ids = [](uint64_t refcount) {
    return IdsOf(With({}, {100, ByCause{{Cause::kFree, kNoise}, {Cause::kRefcount, refcount}}}));
  };
  CHECK(ids(kNoise / 2 - 1).empty());
  CHECK(ids(kNoise / 2) == Ids{"cow-refcount"});
}

TEST_CASE("diagnosis: what was spawned has inherited nothing") {
  Run run = OneWorker({{Cause::kData, 50'000}});
  run.model.processes[1].command = "python -c spawn_main() --multiprocessing-fork";
  CHECK(IdsOf(run) == Ids{"cow-data"});  // forked from one that was spawned
  run.model.processes[1].execed = true;
  run.model.processes[1].duty.start = StartMethod::kSpawn;
  CHECK(IdsOf(run).empty());  // nobody is blamed, but it did copy
}

TEST_CASE("diagnosis: each fork costs the parent what it always writes") {
  const std::vector<ByCause> workers(24, ByCause{});
  CHECK(IdsOf(With({{Cause::kRefcount, 26 * kRewritten}}, workers)) == Ids{"clean"});
  CHECK(IdsOf(With({{Cause::kRefcount, 26 * kRewritten + 1}}, workers)) == Ids{"parent-unshare"});
}

TEST_CASE("diagnosis: each fork of its own costs a worker what it always writes") {
  constexpr uint64_t kCopies = 10 * kRewritten;  // 40 MiB: noise, and what follows from 4 forks
  const auto of = [&](uint64_t forks, Count parent_anon_pages = std::nullopt) {
    Run run = With({}, std::vector<ByCause>(4, ByCause{{Cause::kRefcount, kCopies}}));
    for (ProcessModel& process : run.model.processes) {
      if (process.index == 0) continue;
      process.comm = "python3";
      process.forks = forks;
      process.parent_anon_pages = parent_anon_pages;
    }
    return run;
  };
  CHECK(absl::StrContains(Find(of(0), "cow-refcount").summary, "duplicated 160.0 MiB of the parent's memory"));
  CHECK(Find(of(3), "cow-refcount").pids.size() == 4);
  const Diagnosis clean = Find(of(4), "clean");
  CHECK(absl::StartsWith(clean.summary, "Nothing to do: the workers share what they should."));
  CHECK(absl::StartsWith(clean.evidence[0], "0 B copied by all workers, at most 0 B by one; "));
  CHECK(absl::StrContains(clean.evidence[0], "; 160.0 MiB more by workers that fork processes themselves"));
  // No more is the parent's memory than that had: without forks of their own, they can't copy more anyway.
  CHECK(absl::StrContains(Find(of(3, 7680), "cow-refcount").summary, "duplicated 120.0 MiB of the parent's memory"));
  CHECK(absl::StrContains(Find(of(0, 7680), "cow-refcount").summary, "duplicated 160.0 MiB of the parent's memory"));
  CHECK(IdsOf(of(3, kNoise)).empty());
  CHECK(HeadlineOf(of(3, kNoise)) ==
        "The worker 1001 (python3) copied 40.0 MiB of memory that it shares with others: 100 % reference counts.");
  // Beside them, one that copies much is told alone, and its lines.
  Run beside = of(4);
  beside.model.processes[1].forks = 0;
  beside.model.frames = {{"/app/work.py", "job", 7}, {"/app/main.py", "main", 9}};
  AddCopySite(&beside, {Cause::kRefcount, "str", "", "", {0}}, kCopies);
  AddCopySite(&beside, {Cause::kRefcount, "dict", "", "", {1}}, 0);
  for (const int index : {2, 3, 4}) beside.model.processes[index].copy_sites[1] = {index, 1, kCopies, kCopies, kCopies};
  CHECK(Find(beside, "cow-refcount").pids == std::vector<pid_t>{1001});
  CHECK(HeadlineOf(beside) ==
        "Reading Python objects duplicated 40.0 MiB of the parent's memory in 1 of 4 workers; 100 % of it at work.py:7 "
        "in job (str).");
}

TEST_CASE("diagnosis: programs that a worker starts cost it what it writes until they run") {
  const auto of = [](uint64_t programs, uint64_t copies, Count parent_anon_pages = std::nullopt) {
    Run run = OneWorker({{Cause::kRefcount, copies}});
    ProcessModel& worker = run.model.processes[1];
    worker.space = 0;
    worker.forks_for_exec = programs;
    worker.parent_anon_pages = parent_anon_pages;
    return run;
  };
  constexpr uint64_t kPopen = 28 * 150;  // pages, of Popen(preexec_fn=...)
  CHECK(IdsOf(of(0, kPopen)) == Ids{"cow-refcount"});
  CHECK(IdsOf(of(28, kPopen)) == Ids{"clean"});
  constexpr uint64_t kMost = kNoise + 2 * kRewritten + 28 * kRewritten / 4;
  CHECK(IdsOf(of(28, kMost)) == Ids{"clean"});
  CHECK(IdsOf(of(28, kMost + 1)) == Ids{"cow-refcount"});
  CHECK(absl::StrContains(Find(of(28, kMost + 1, 7680), "cow-refcount").summary,
                          "duplicated 30.0 MiB of the parent's memory"));
  // However many they are, they do not hide what it copied of what it inherited.
  CHECK(IdsOf(of(5000, 25'600)) == Ids{"cow-refcount"});
}

TEST_CASE("diagnosis: what others start costs the parent nothing, and a program until it calls exec") {
  constexpr int kPrograms = 40;
  const auto ids = [](uint64_t copies, int forker, int space) {
    Run run = With({{Cause::kRefcount, copies}}, {{}});
    Sample sample = {.t = absl::Seconds(1)};
    for (int i = 2; i < 2 + kPrograms; ++i) {
      sample.events.push_back(Started(i, forker));
      sample.events.back().As<ProcessStarted>()->space = space;
      sample.events.push_back({.index = i, .what = ProcessExeced{.comm = "ffmpeg", .command = "ffmpeg"}});
    }
    Append(sample, &run);
    return IdsOf(run);
  };
  constexpr uint64_t kCopies = 3 * kRewritten + kPrograms * kRewritten / 4;
  CHECK(ids(3 * kRewritten + 1, 1, 0) == Ids{"parent-unshare"});   // a worker's
  CHECK(ids(3 * kRewritten + 1, 0, -1) == Ids{"parent-unshare"});  // by vfork
  CHECK(ids(kCopies, 0, 0) == Ids{"clean"});
  CHECK(ids(kCopies + 1, 0, 0) == Ids{"parent-unshare"});
  // Workers that were there at the attach were forked, too.
  const auto attached = [](uint64_t copies) {
    Event worker = Started(1, 0);
    worker.As<ProcessStarted>()->origin = Origin::kFoundAtAttach;
    worker.As<ProcessStarted>()->space = 0;
    Run run;
    Append({.events = {Started(0, -1), worker},
            .processes = {RowByCause(0, {{Cause::kRefcount, copies}}), RowByCause(1, {})}},
           &run);
    return IdsOf(run);
  };
  CHECK(attached(3 * kRewritten).empty());
  CHECK(attached(3 * kRewritten + 1) == Ids{"parent-unshare"});
}

TEST_CASE("diagnosis: a parent that copies, at the borders") {
  const auto ids = [](uint64_t parent, uint64_t worker) {
    return IdsOf(With({{Cause::kRefcount, parent}}, {{{Cause::kFree, worker}}}));
  };
  CHECK(ids(3 * kRewritten, 0) == Ids{"clean"});
  CHECK(ids(3 * kRewritten + 1, 0) == Ids{"parent-unshare"});
  CHECK(ids(9'999, 90'001).empty());
  CHECK(ids(10'000, 90'000) == Ids{"parent-unshare"});
  const Diagnosis diagnosis = Find(With({{Cause::kRefcount, 25'600}}, {{}}), "parent-unshare");
  CHECK(diagnosis.pids == std::vector<pid_t>{1000});
  CHECK(absl::StrContains(diagnosis.summary, "100.0 MiB"));
  // What a parent writes after any fork it would write anyway: 4 MiB, and 4 MiB for each process.
  CHECK(diagnosis.saves == Saving{.low = 88 << 20, .best = 88 << 20, .high = 100 << 20});
  // Of sets of workers one after another nobody knows what the parent held at one time.
  Run renewed = With({{Cause::kRefcount, 25'600}}, {{}});
  Append({.t = absl::Seconds(1), .events = {Exited(1, 0, absl::Seconds(0.5))}}, &renewed);
  Append({.t = absl::Seconds(2), .events = {Started(2, 0)}}, &renewed);
  CHECK(!Find(renewed, "parent-unshare").saves);
}

TEST_CASE("diagnosis: what a parent copied before it forked, or of files, its workers have never shared") {
  constexpr uint64_t kBefore = 500'000;
  const auto of = [&](uint64_t read, uint64_t of_files = 0) {
    Event command = Started(1, 0), worker = Started(2, 0);
    for (Event* event : {&command, &worker}) event->As<ProcessStarted>()->space = 0;
    const Event execed = {.index = 1, .what = ProcessExeced{.comm = "git", .command = "git"}};
    const ByCause before = {{Cause::kData, kBefore}}, after = {{Cause::kData, kBefore}, {Cause::kRefcount, read}};
    Run run;
    Append({.events = {Started(0, -1)}, .processes = {RowByCause(0, {})}}, &run);
    Append({.t = absl::Seconds(1), .events = {command, execed}, .processes = {RowByCause(0, before)}}, &run);
    Append({.t = absl::Seconds(2), .events = {worker}, .processes = {RowByCause(0, before), RowByCause(2, {})}}, &run);
    Append({.t = absl::Seconds(3), .processes = {RowByCause(0, after), RowByCause(2, {})}}, &run);
    run.model.frames = {{.file = "/app/load.py", .function = "load", .line = 3},
                        {.file = "/app/train.py", .function = "read", .line = 7}};
    run.model.copy_sites = {{.cause = Cause::kData, .frames = {0}}, {.cause = Cause::kRefcount, .frames = {1}}};
    run.model.processes[0].copy_sites[0] = {0, 0, kBefore, kBefore, kBefore};
    run.model.processes[0].copy_sites[1] = {0, 1, read, read, read};
    run.model.processes[0].copies_of_files = of_files;
    return run;
  };
  CHECK(IdsOf(of(0)) == Ids{"clean"});
  CHECK(IdsOf(of(25'600, 25'600)) == Ids{"clean"});
  CHECK(Find(of(25'600), "parent-unshare").summary ==
        "The parent itself duplicated 100.0 MiB: it keeps reading objects that its worker still shares, which writes "
        "their reference counts.");
  CHECK(absl::StartsWith(Find(of(25'600, 5'600), "parent-unshare").summary, "The parent itself duplicated 78.1 MiB"));
  // Most of it was read.
  CHECK(absl::StrContains(Find(of(1'000'000), "parent-unshare").summary, " of it at train.py:7 in read"));
}

TEST_CASE("diagnosis: of a parent whose collector copies, the advice is against that") {
  Run run = With({{Cause::kGcHeader, 25'600}}, {{}});
  const Diagnosis found = Find(run, "parent-unshare");
  REQUIRE(found.advice.size() == 1);
  CHECK(absl::StartsWith(found.advice[0], "Call gc.collect() and then gc.freeze() before the workers are forked"));
  CHECK(absl::StrContains(found.advice[0], "gc.unfreeze()"));
  run.model.processes[0].python = "3.6.15";
  const std::string old = Find(run, "parent-unshare").advice[0];
  CHECK(absl::StrContains(old, "gc.disable() while they live"));
  CHECK_FALSE(absl::StrContains(old, "freeze"));
  // Near miss: the collector did less than half of it.
  const Run writes = With({{Cause::kGcHeader, 10'000}, {Cause::kData, 15'600}}, {{}});
  CHECK_FALSE(absl::StrContains(TextOf(Find(writes, "parent-unshare")), "gc."));
}

TEST_CASE("diagnosis: what a parent copied beside one set of workers after another is not one amount") {
  const ByCause reads = {{Cause::kRefcount, 20'480}};
  constexpr uint64_t kEach = 19'200;  // pages: 75 MiB for each set
  Run run = With({{Cause::kGcHeader, kEach}}, {reads, reads});
  const auto at = [](Event event, absl::Duration t) {
    event.t = t;
    return event;
  };
  for (int set = 1; set < 20; ++set) {
    const absl::Duration t = absl::Seconds(set), forked = t - absl::Milliseconds(400);
    const int first = 2 * set + 1;
    Append({.t = t,
            .events = {Exited(first - 2, 0, t - absl::Milliseconds(500)),
                       Exited(first - 1, 0, t - absl::Milliseconds(500)), at(Started(first, 0), forked),
                       at(Started(first + 1, 0), forked)},
            .processes = {RowByCause(0, {{Cause::kGcHeader, (set + 1) * kEach}}), RowByCause(first, reads),
                          RowByCause(first + 1, reads)}},
           &run);
  }
  CHECK(IdsOf(run) == Ids{"cow-refcount", "parent-unshare"});
  const Diagnosis found = Find(run, "parent-unshare");
  CHECK(absl::StartsWith(found.summary,
                         "The parent itself duplicated 1.5 GiB, summed over 40 workers, 2 at a time: it runs its "
                         "cycle collector"));
  CHECK(found.bytes == 75 << 20);
  CHECK(!found.saves);
  // The first of several ranks, as Lightning starts them, has only a part of the workers.
  run.model.target_is_rank = true;
  CHECK(absl::StrContains(Find(run, "parent-unshare").summary, " 1.5 GiB, summed over all its workers: "));
}

TEST_CASE("diagnosis: a parent that takes pages over does not copy") {
  Run run = With({{Cause::kRefcount, 300}}, {{}});
  run.model.processes[0].counts.write_protect_faults = 1'000'000;
  CHECK(IdsOf(run) == Ids{"clean"});
}

TEST_CASE("diagnosis: without workers") {
  const Diagnosis clean = Find(With({{Cause::kRefcount, 200}}, {}), "clean");
  CHECK(absl::StartsWith(clean.summary, "Nothing to do: no worker was forked"));
  // One that was forked itself, and shares with a process that is not followed.
  const Run alone = With({{Cause::kRefcount, 50'000}}, {});
  CHECK(IdsOf(alone).empty());
  CHECK(absl::StrContains(HeadlineOf(alone), "If it is a worker, attach to its parent"));
  // One whose child only ran another program: it may be a forked worker itself.
  Run runs_another = With({{Cause::kRefcount, 50'000}}, {{}});
  runs_another.model.processes[1].execed = true;
  runs_another.model.processes[1].role = Role::kOther;
  CHECK(IdsOf(runs_another).empty());
  CHECK(absl::StrContains(HeadlineOf(runs_another), "the target itself copied 195.3 MiB"));
}

TEST_CASE("diagnosis: a target that is not Python is called what it is, with the Python below it") {
  Run run = With({}, {{}, {}, {}});
  for (ProcessModel& process : run.model.processes) process.role = process.index == 0 ? Role::kParent : Role::kOther;
  ProcessModel& target = run.model.processes[0];
  target.comm = "bash";
  CHECK(!absl::StrContains(HeadlineOf(run), "bash"));  // nobody has looked yet
  target.framework = Framework::kNative;
  CHECK(absl::EndsWith(HeadlineOf(run), " It is bash, not Python."));
  for (const int index : {1, 2, 3}) run.model.processes[index].python = "3.11.2";
  run.model.processes[2].command = "";
  run.model.processes[2].comm = "python3";
  run.model.processes[3].ended = absl::Seconds(0);
  CHECK(absl::EndsWith(HeadlineOf(run), " Python runs below it: 1001 (python train.py), 1002 (python3)."));
  // A launcher that is Python itself, and not what multiprocessing starts to help.
  target.framework.reset();
  target.python = "3.11.2";
  run.model.processes[2].role = Role::kHelper;
  CHECK(absl::EndsWith(HeadlineOf(run), " s. Python runs below it: 1001 (python train.py)."));
}

TEST_CASE("diagnosis: of many Python processes below the target five are told, and one alone is called what it is") {
  Run run = With({}, std::vector<ByCause>(7));
  for (ProcessModel& process : run.model.processes) process.role = process.index == 0 ? Role::kParent : Role::kOther;
  for (ProcessModel& process : run.model.processes) process.python = "3.11.2";
  CHECK(absl::StrContains(HeadlineOf(run), ", 1005 (python train.py), and 2 more."));
  CHECK(!absl::StrContains(HeadlineOf(run), "1006"));
  Run alone = With({}, {});
  CHECK(!absl::StrContains(HeadlineOf(alone), "It is"));
  alone.model.processes[0].python = "3.11.2";
  CHECK(absl::EndsWith(HeadlineOf(alone), " It is Python 3.11.2 without child processes."));
}

TEST_CASE("headline: a process that copied without being a worker is named") {
  // As a trainer below a launcher, which copies nothing itself.
  Run run = With({{Cause::kRefcount, 7}}, {{{Cause::kRefcount, 50'000}}, {{Cause::kRefcount, 30}}});
  run.model.processes[1].role = Role::kOther;
  run.model.processes[1].comm = "python3";
  CHECK(IdsOf(run).empty());
  CHECK(HeadlineOf(run) ==
        "The process 1001 (python3) copied 195.3 MiB of memory that it shares with others: 100 % reference counts.");
}

TEST_CASE("headline: workers without a past or without a count are not called healthy") {
  Run run = With({}, {{{Cause::kRefcount, 30}}, {{Cause::kRefcount, 30}}});
  run.model.processes[2].origin = Origin::kFoundAtAttach;
  CHECK(IdsOf(run).empty());
  CHECK(absl::StartsWith(HeadlineOf(run), "What 1 of 2 workers had copied before cowprof attached is not known"));
  run.model.processes[2].before_attach_bytes = 5 << 20;
  CHECK(IdsOf(run) == Ids{"clean"});
  run.model.processes[1].counts.copies.reset();
  CHECK(HeadlineOf(run) == "The pages of 1 of 2 workers were not examined: what was copied is unknown.");
}

TEST_CASE("diagnosis: nothing is said where causes are not known") {
  CHECK(DiagnosesOf({}).empty());
  Run run = OneWorker({{Cause::kRefcount, 50'000}});
  for (ProcessModel& process : run.model.processes) process.causes.reset();
  CHECK(DiagnosesOf(run).empty());
  CHECK(HeadlineOf(run) == "1 worker copied 195.3 MiB of inherited memory; the reason is unknown.");
  for (ProcessModel& process : run.model.processes) {
    process.python = "3.14.7";
    process.python_problem = "a free-threaded build: cowprof cannot classify its writes";
  }
  CHECK(HeadlineOf(run) ==
        "1 worker copied 195.3 MiB of inherited memory; the reason is unknown (Python 3.14.7: a free-threaded build: "
        "cowprof cannot classify its writes).");
  CHECK(HeadlineOf({}) == "Nothing was recorded.");
}

TEST_CASE("diagnosis: clean says how much was copied all the same") {
  const Run run = With({}, {{{Cause::kRefcount, 256}}, {{Cause::kData, 512}}});
  const Diagnosis clean = Find(run, "clean");
  CHECK(clean.pids.empty());
  CHECK(absl::StrContains(clean.summary, "share what they should"));
  CHECK(absl::StrContains(TextOf(clean), "3.0 MiB"));
  CHECK(absl::StrContains(TextOf(clean), "at most 2.0 MiB by one"));
}

TEST_CASE("diagnosis: what is said names bytes, shares, types and lines") {
  Run run = OneWorker({{Cause::kRefcount, 23'040}, {Cause::kFree, 2560}});
  run.model.frames = {{"/app/coco.py", "CocoDataset.__getitem__", 41}, {"/app/train.py", "main", 3}};
  AddCopySite(&run, {Cause::kRefcount, "str", "libpython3.11.so", "PyList_GetItem", {0, 1}}, 18'432);
  AddCopySite(&run, {Cause::kRefcount, "dict", "libpython3.11.so", "PyDict_GetItem", {1}}, 4608);
  AddCopySite(&run, {Cause::kFree, "tuple", "libpython3.11.so", "tupledealloc", {1}}, 2560);
  const Diagnosis diagnosis = Find(run, "cow-refcount");
  INFO(TextOf(diagnosis));
  CHECK(absl::StrContains(diagnosis.summary, "90.0 MiB"));
  REQUIRE(diagnosis.evidence.size() == 5);
  CHECK(diagnosis.evidence[0] == "23,040 of 25,600 copies (90 %, 90.0 MiB)");
  CHECK(diagnosis.evidence[1] == "80 %: objects of type str");
  CHECK(diagnosis.evidence[2] == "20 %: objects of type dict");
  CHECK(diagnosis.evidence[3] == "80 %: /app/coco.py:41 in CocoDataset.__getitem__");
  CHECK(diagnosis.evidence[4] == "20 %: /app/train.py:3 in main");
  CHECK(HeadlineOf(run) ==
        "Reading Python objects duplicated 90.0 MiB of the parent's memory in 1 worker; 80 % of it at coco.py:41 in "
        "CocoDataset.__getitem__ (str).");
  REQUIRE(diagnosis.culprit);
  CHECK(diagnosis.culprit->frame == Frame{"/app/coco.py", "CocoDataset.__getitem__", 41});
  CHECK(diagnosis.culprit->share == Approx(0.8));
}

TEST_CASE("diagnosis: a sampled figure is called estimated") {
  Run run = OneWorker({{Cause::kData, 25'600}});
  run.model.frames = {{"a.py", "f", 1}};
  AddCopySite(&run, {Cause::kData, "", "libc.so.6", "memcpy", {0}}, 24'000, 10);
  CHECK(absl::StrContains(HeadlineOf(run), "; about 100 % of it at a.py:1 in f."));
  run.model.copy_sites[0].type = "numpy.ndarray";
  CHECK(Find(run, "cow-data").evidence[1] == "100 % (estimated): objects of type numpy.ndarray");
}

TEST_CASE("diagnosis: no more than three types and lines, and none that is next to nothing") {
  Run run = OneWorker({{Cause::kRefcount, 10'000}});
  for (const auto& [type, copies] :
       std::map<std::string, uint64_t>{{"a", 4000}, {"b", 3000}, {"c", 2000}, {"d", 600}, {"e", 400}}) {
    AddCopySite(&run, {Cause::kRefcount, type, "", "", {}}, copies);
  }
  CHECK(Find(run, "cow-refcount").evidence.size() == 4);
  Run scattered = OneWorker({{Cause::kRefcount, 10'000}});
  for (int i = 0; i < 50; ++i) AddCopySite(&scattered, {Cause::kRefcount, absl::StrCat("t", i), "", "", {}}, 200);
  CHECK(Find(scattered, "cow-refcount").evidence.size() == 1);
}

TEST_CASE("diagnosis: what the kernel wrote is told as a part of all that was written") {
  const Diagnosis both = Find(OneWorker({{Cause::kData, 25'600}, {Cause::kKernel, 12'800}}), "cow-data");
  CHECK(absl::StrContains(both.summary, "150.0 MiB"));
  CHECK(absl::StrContains(TextOf(both), "50.0 MiB of it by the kernel"));
  // All of it: then the evidence must not begin with nothing.
  const Diagnosis kernel = Find(OneWorker({{Cause::kKernel, 25'600}}), "cow-data");
  INFO(TextOf(kernel));
  CHECK(absl::StrContains(kernel.summary, "100.0 MiB"));
  CHECK_FALSE(absl::StartsWith(kernel.evidence[0], "0 of "));
  CHECK(kernel.confidence > 0.9);
}

TEST_CASE("headline: a standing alert of a limit comes before having nothing to do") {
  Run run = OneWorker({{Cause::kRefcount, 200}});
  REQUIRE(IdsOf(run) == Ids{"clean"});
  run.alerts = {{.t = absl::Seconds(2), .rule = AlertRule::kEta, .text = "cgroup /job full in about 3 s"}};
  CHECK(Judge(run).headline == Headline{"unknown", "Alert at 2.0 s: cgroup /job full in about 3 s."});
  run.alerts.push_back(run.alerts[0]);
  run.alerts[1].over = true;
  CHECK(IdsOf(run) == Ids{"clean"});
}

TEST_CASE("diagnosis: what may have been written is told beside what was") {
  const Diagnosis partly = Find(OneWorker({{Cause::kData, 25'600}, {Cause::kUnknown, 12'800}}), "cow-data");
  CHECK(absl::EndsWith(partly.summary, "in 1 worker; why it copied another 50.0 MiB is unknown."));
  const Diagnosis hardly = Find(OneWorker({{Cause::kData, 25'600}, {Cause::kUnknown, 500}}), "cow-data");
  CHECK(absl::EndsWith(hardly.summary, "in 1 worker."));
}

TEST_CASE("diagnosis: names of the target's choosing are made printable") {
  Run run = OneWorker({{Cause::kRefcount, 25'600}});
  run.model.frames = {{"/tmp/\x1b[2J\n.py", "f\x07\xff", 1}};
  AddCopySite(&run, {Cause::kRefcount, "evil\x1b]0;x\x07\r\xe2\x80\xae", "lib\n.so", "s\x1b", {0}}, 25'600);
  std::string text = HeadlineOf(run);
  for (const Diagnosis& diagnosis : DiagnosesOf(run)) {
    for (const std::string& line : diagnosis.evidence) CHECK_FALSE(absl::StrContains(line, "\n"));
    text += TextOf(diagnosis);
  }
  CHECK(absl::StrContains(text, "evil\\x1b"));
  for (const char* raw : {"\x1b", "\x07", "\r", "\xff", "\xe2\x80\xae"}) CHECK_FALSE(absl::StrContains(text, raw));
  run.model.copy_sites[0].type = std::string(100'000, 'x');
  CHECK(HeadlineOf(run).size() < 1000);
}

TEST_CASE("headline: places that differ in native code or further up the stack are one line") {
  Run run = OneWorker({{Cause::kRefcount, 10'000}});
  run.model.frames = {{"a.py", "f", 1}, {"b.py", "g", 2}};
  AddCopySite(&run, {Cause::kRefcount, "int", "", "", {1}}, 4000);
  AddCopySite(&run, {Cause::kRefcount, "str", "l", "one", {0}}, 3000);
  AddCopySite(&run, {Cause::kRefcount, "str", "l", "two", {0, 1}}, 3000);
  CHECK(absl::StrContains(HeadlineOf(run), "; 60 % of it at a.py:1 in f (str)."));
  // Without a line, only the amount is said.
  run.model.processes[1].copy_sites.clear();
  CHECK(HeadlineOf(run) == "Reading Python objects duplicated 39.1 MiB of the parent's memory in 1 worker.");
}

TEST_CASE("headline: the line is the program's, and the library between is named") {
  Run run = OneWorker({{Cause::kRefcount, 10'000}});
  run.model.frames = {{"/usr/lib/python3/dist-packages/pandas/core/series.py", "Series.__getitem__", 981},
                      {"/usr/lib/python3/dist-packages/pandas/core/indexing.py", "iget", 7},
                      {"/home/u/dataset.py", "Coco.__getitem__", 41},
                      {"/opt/conda/lib/python3.10/multiprocessing/process.py", "BaseProcess._bootstrap", 314},
                      {"/home/u/train.py", "<module>", 9}};
  AddCopySite(&run, {Cause::kRefcount, "str", "", "", {0, 1, 2, 3, 4}}, 10'000);
  CHECK(absl::StrContains(HeadlineOf(run), "100 % of it at dataset.py:41 in Coco.__getitem__, via pandas (str)."));
  // What the parent ran when it forked is not what copied.
  run.model.copy_sites[0].frames = {0, 3, 4};
  CHECK(
      absl::EndsWith(HeadlineOf(run),
                     "; 100 % of it in pandas's Series.__getitem__ (series.py:981) (str), with no line of the program "
                     "on the stack."));
  CHECK(!Find(run, "cow-refcount").culprit);
}

TEST_CASE("headline: what torch's collate reads came from the Dataset, and its line is not the program's") {
  Run run = OneWorker({{Cause::kNativeRefcount, 10'000}});
  run.model.frames = {{"/usr/lib/python3/dist-packages/torch/utils/data/_utils/collate.py", "collate_tensor_fn", 163},
                      {"/usr/lib/python3.11/multiprocessing/process.py", "BaseProcess._bootstrap", 314}};
  AddCopySite(&run, {Cause::kNativeRefcount, "c10::TensorImpl", "", "", {0, 1}}, 10'000);
  CHECK(
      HeadlineOf(run) ==
      "Reading many small torch tensors duplicated 39.1 MiB of the parent's memory in 1 worker; 100 % of it in torch's "
      "collate_tensor_fn (collate.py:163) (c10::TensorImpl), on what your Dataset returned.");
  CHECK(!Find(run, "torch-refcount").culprit);
  // A collate_fn of the program that calls torch's is a line of the program.
  run.model.frames.push_back({"/home/u/train.py", "pad", 12});
  run.model.copy_sites[0].frames = {0, 2, 1};
  CHECK(absl::EndsWith(HeadlineOf(run), "; 100 % of it at train.py:12 in pad, via torch (c10::TensorImpl)."));
}

TEST_CASE("headline: how many workers there were, and how many at a time") {
  Run run = With({}, {{{Cause::kRefcount, 10'000}}, {{Cause::kRefcount, 10'000}}});
  CHECK(absl::StrContains(HeadlineOf(run), "of the parent's memory in 2 workers."));
  const auto at = [](Event event, int milliseconds) {
    event.t = absl::Milliseconds(milliseconds);
    return event;
  };
  Append({.t = absl::Seconds(1),
          .events = {at(Exited(1), 300), at(Exited(2), 300), at(Started(3, 0), 300), at(Started(4, 0), 400)},
          .processes = {RowByCause(3, {{Cause::kRefcount, 10'000}}), RowByCause(4, {{Cause::kRefcount, 10'000}})}},
         &run);
  CHECK(absl::StrContains(HeadlineOf(run), "of the parent's memory, summed over 4 workers, 2 at a time."));
  // Three that live together between two samples, and are never seen alive.
  Append({.t = absl::Seconds(2),
          .events = {at(Exited(3), 1100), at(Exited(4), 1100), at(Started(5, 0), 1200), at(Started(6, 0), 1200),
                     at(Started(7, 0), 1300), at(Exited(5), 1400), at(Exited(6), 1400), at(Exited(7), 1400)}},
         &run);
  CHECK(run.model.most_living_workers == 3);
}

TEST_CASE("headline: a pool that has ended gives its words and its number to nobody else's copies") {
  // As datasets' map(num_proc=16), and then a DataLoader with 4 workers that copy `copies` pages each.
  const auto of = [](uint64_t copies) {
    Run run = With({}, std::vector<ByCause>(16, {{Cause::kRefcount, 500}}));
    Sample loader = {.t = absl::Seconds(1)};
    for (int index = 1; index <= 20; ++index) {
      loader.events.push_back(index <= 16 ? Exited(index) : Started(index, 0));
      loader.events.back().t = absl::Seconds(1);
      if (index > 16) loader.processes.push_back(RowByCause(index, {{Cause::kRefcount, copies}}));
    }
    Append(loader, &run);
    for (int index = 1; index <= 20; ++index)
      run.model.processes[index].framework = index <= 16 ? Framework::kPool : Framework::kDataLoader;
    return run;
  };
  const Run run = of(59'392);
  REQUIRE(IdsOf(run) == Ids{"cow-refcount"});
  CHECK(HeadlineOf(run) == "Reading Python objects duplicated 959.2 MiB of the trainer's memory in 4 of 20 workers.");
  CHECK(absl::StrContains(TextOf(Find(run, "cow-refcount")), "With num_workers=0 nothing is copied"));
  // Those that copied in turn are a sum.
  Run in_turn = run;
  for (const int index : {17, 18}) in_turn.model.processes[index].ended = absl::Seconds(2);
  for (const int index : {19, 20}) in_turn.model.processes[index].started = absl::Seconds(2);
  CHECK(absl::StrContains(HeadlineOf(in_turn), " of the trainer's memory, summed over 20 workers, 16 at a time."));
  // Where none copied much, those that hold most; and the program trains all the same.
  Run little = of(500);
  for (ProcessModel& process : little.model.processes) process.peak_private_bytes = 1 << 20;
  CHECK(Judge(little).framework == Framework::kPool);
  CHECK(Judge(little).trains);
  for (int index = 17; index <= 20; ++index) little.model.processes[index].peak_private_bytes = 1 << 30;
  CHECK(Judge(little).framework == Framework::kDataLoader);
}

TEST_CASE("headline: a worker that ended badly is not passed over") {
  Run run = With({}, {{{Cause::kRefcount, 30}}, {{Cause::kRefcount, 30}}});
  run.model.processes[1].python = "3.11.2";
  Append({.t = absl::Seconds(1), .events = {Exited(1, SIGTERM), Exited(2)}}, &run);
  CHECK(IdsOf(run) == Ids{"clean"});
  run.model.processes[1].exit = ExitOf(SIGSEGV);
  CHECK(IdsOf(run).empty());
  CHECK(absl::StartsWith(HeadlineOf(run), "1 of 2 workers ended badly: worker 1001 was killed by SIGSEGV"));
  // Of a shell's child, 3 means whatever it likes.
  run.model.processes[2].exit = ExitOf(3 << 8);
  CHECK(absl::StartsWith(HeadlineOf(run), "1 of 2 workers ended badly"));
  run.model.processes[2].python = "3.11.2";
  CHECK(absl::StrContains(HeadlineOf(run), "2 of 2 workers ended badly"));
  // What is known otherwise stays first.
  Run copies = OneWorker({{Cause::kRefcount, 10'000}});
  copies.model.processes[1].python = "3.11.2";
  Append({.t = absl::Seconds(1), .events = {Exited(1, 3 << 8)}}, &copies);
  CHECK(IdsOf(copies) == Ids{"cow-refcount"});
  CHECK(absl::StrContains(Judge(copies).verdict,
                          "1 of 1 worker ended badly: worker 1001 exited unexpectedly with code 3."));
}

TEST_CASE("diagnosis: of any recording there is a headline, with a summary and nothing absurd") {
  const unsigned seed = GENERATE(range(1u, 21u));
  INFO("seed " << seed);
  RandomRecording recording(seed);
  Run run = {.model = {.info = recording.Info()}};
  for (int i = 0; i < 30; ++i) Append(recording.Next(), &run);
  const std::vector<Diagnosis> found = DiagnosesOf(run);
  CHECK_FALSE(HeadlineOf(run).empty());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO(found[i].id << ": " << found[i].summary);
    CHECK_FALSE(found[i].summary.empty());
    CHECK_FALSE(found[i].evidence.empty());
    CHECK((found[i].confidence > 0 && found[i].confidence <= 1));
    CHECK((i == 0 || found[i].harm >= found[i - 1].harm));
    CHECK((found[i].id != "clean" || found.size() == 1));
  }
}

}  // namespace cowprof
