// Each diagnosis on a recording in which it was planted, and on those in which the contract forbids it (the report's
// contract, "must not fire when"). Pages are of 4096 bytes, so that 2048 of them are the 8 MiB below which nothing is a
// finding.
#include "model/judge/diagnosis.h"

#include <algorithm>
#include <catch2/catch.hpp>
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

using ByCause = std::map<Cause, uint64_t>;
constexpr uint64_t kNoise = 2048;  // pages

ProcessSample Row(int index, const ByCause& copies) {
  ProcessSample row = {.index = index, .causes = CauseCounts{}};
  uint64_t sum = 0;
  for (const auto& [cause, count] : copies) {
    (*row.causes)[static_cast<int>(cause)] = count;
    sum += count;
  }
  row.counts = {.write_protect_faults = sum + 33, .copies = sum, .zero_upgrades = 0};
  return row;
}

// A target, whose copies are `parent`, and forked workers.
Run With(const ByCause& parent, const std::vector<ByCause>& workers) {
  Run run;
  Sample sample = {.events = {Started(0, -1, "python train.py")}, .processes = {Row(0, parent)}};
  for (size_t i = 0; i < workers.size(); ++i) {
    sample.events.push_back(Started(i + 1, 0, "python train.py"));
    sample.processes.push_back(Row(i + 1, workers[i]));
  }
  Append(sample, &run);
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
  CHECK(IdsOf(With({{Cause::kRefcount, 5000}}, {{}})) == Ids{"parent-unshare"});
}

TEST_CASE("diagnosis: causes that nothing is said of are no finding, and no other one's") {
  for (const Cause cause : {Cause::kAllocator, Cause::kBytecode, Cause::kHash, Cause::kFree, Cause::kUnknown}) {
    INFO(NameOf(cause));
    CHECK(IdsOf(OneWorker({{cause, 5000}})) == Ids{"clean"});
  }
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
  // Of all that the worker copied, less than 8 MiB for this cause is noise, too.
  CHECK(IdsOf(OneWorker({{cause, kNoise - 1}, {Cause::kFree, 3000}})) == Ids{"clean"});
  CHECK(IdsOf(OneWorker({{cause, kNoise}, {Cause::kFree, 3000}})) != Ids{"clean"});
}

TEST_CASE("diagnosis: the border of what is noticeable") {
  const Cause cause = GENERATE(Cause::kRefcount, Cause::kGcHeader, Cause::kData);
  INFO(NameOf(cause));
  CHECK(IdsOf(OneWorker({{cause, 9'999}, {Cause::kFree, 90'001}})) == Ids{"clean"});
  CHECK(IdsOf(OneWorker({{cause, 10'000}, {Cause::kFree, 90'000}})) != Ids{"clean"});
}

TEST_CASE("diagnosis: bytes count, not pages") {
  Run run = OneWorker({{Cause::kRefcount, 200}});
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
  CHECK(ids(kNoise - 1) == Ids{"clean"});
  CHECK(ids(kNoise) == Ids{"cow-refcount"});
}

TEST_CASE("diagnosis: what was spawned has inherited nothing") {
  Run run = OneWorker({{Cause::kData, 50'000}});
  run.model.processes[1].command = "python -c spawn_main() --multiprocessing-fork";
  CHECK(IdsOf(run) == Ids{"cow-data"});  // forked from one that was spawned
  run.model.processes[1].execed = true;
  CHECK(IdsOf(run) == Ids{"clean"});
}

TEST_CASE("diagnosis: each fork costs the parent what it always writes") {
  const std::vector<ByCause> workers(24, ByCause{});
  CHECK(IdsOf(With({{Cause::kRefcount, 13 * kNoise}}, workers)) == Ids{"clean"});
  CHECK(IdsOf(With({{Cause::kRefcount, 13 * kNoise + 1}}, workers)) == Ids{"parent-unshare"});
}

TEST_CASE("diagnosis: a parent that copies, at the borders") {
  const auto ids = [](uint64_t parent, uint64_t worker) {
    return IdsOf(With({{Cause::kRefcount, parent}}, {{{Cause::kFree, worker}}}));
  };
  CHECK(ids(kNoise * 3 / 2, 0) == Ids{"clean"});
  CHECK(ids(kNoise * 3 / 2 + 1, 0) == Ids{"parent-unshare"});
  CHECK(ids(9'999, 90'001) == Ids{"clean"});
  CHECK(ids(10'000, 90'000) == Ids{"parent-unshare"});
  const Diagnosis diagnosis = Find(With({{Cause::kRefcount, 25'600}}, {{}}), "parent-unshare");
  CHECK(diagnosis.pids == std::vector<pid_t>{1000});
  CHECK(absl::StrContains(diagnosis.summary, "100.0 MiB"));
}

TEST_CASE("diagnosis: a parent that takes pages over does not copy") {
  Run run = With({{Cause::kRefcount, 300}}, {{}});
  run.model.processes[0].counts.write_protect_faults = 1'000'000;
  CHECK(IdsOf(run) == Ids{"clean"});
}

TEST_CASE("diagnosis: without workers") {
  Run alone = With({{Cause::kRefcount, 50'000}}, {});
  CHECK(IdsOf(alone) == Ids{"clean"});
  CHECK(absl::StrContains(DiagnosesOf(alone)[0].summary, "No worker was forked"));
  // One that only made another program run has nobody that inherited its memory.
  Run runs_another = With({{Cause::kRefcount, 50'000}}, {{}});
  runs_another.model.processes[1].execed = true;
  runs_another.model.processes[1].role = Role::kOther;
  CHECK(IdsOf(runs_another) == Ids{"clean"});
}

TEST_CASE("diagnosis: nothing is said where causes are not known") {
  CHECK(DiagnosesOf({}).empty());
  Run run = OneWorker({{Cause::kRefcount, 50'000}});
  for (ProcessModel& process : run.model.processes) process.causes.reset();
  CHECK(DiagnosesOf(run).empty());
  CHECK(LargestGroupOf({}).empty());
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
  CHECK(absl::StrContains(TextOf(diagnosis), "would have kept 90.0 MiB shared"));
  CHECK(LargestGroupOf(run) == "72 % of 100.0 MiB: reference counts of str, at coco.py:41 in CocoDataset.__getitem__.");
}

TEST_CASE("diagnosis: a sampled figure is called estimated") {
  Run run = OneWorker({{Cause::kData, 25'600}});
  AddCopySite(&run, {Cause::kData, "", "libc.so.6", "memcpy", {}}, 24'000, 10);
  CHECK(LargestGroupOf(run) == "100 % of 100.0 MiB: data (estimated).");
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

TEST_CASE("diagnosis: names of the target's choosing are made printable") {
  Run run = OneWorker({{Cause::kRefcount, 25'600}});
  run.model.frames = {{"/tmp/\x1b[2J\n.py", "f\x07\xff", 1}};
  AddCopySite(&run, {Cause::kRefcount, "evil\x1b]0;x\x07\r\xe2\x80\xae", "lib\n.so", "s\x1b", {0}}, 25'600);
  std::string text = LargestGroupOf(run);
  for (const Diagnosis& diagnosis : DiagnosesOf(run)) {
    for (const std::string& line : diagnosis.evidence) CHECK_FALSE(absl::StrContains(line, "\n"));
    text += TextOf(diagnosis);
  }
  CHECK(absl::StrContains(text, "evil\\x1b"));
  for (const char* raw : {"\x1b", "\x07", "\r", "\xff", "\xe2\x80\xae"}) CHECK_FALSE(absl::StrContains(text, raw));
  run.model.copy_sites[0].type = std::string(100'000, 'x');
  CHECK(LargestGroupOf(run).size() < 1000);
}

TEST_CASE("finding: the largest group, or nothing where there is none") {
  Run run = OneWorker({{Cause::kRefcount, kNoise}});
  AddCopySite(&run, {Cause::kRefcount, "str", "", "", {}}, kNoise);
  CHECK(LargestGroupOf(run).empty());
  run.model.processes[1].counts.copies = kNoise + 1;
  CHECK(LargestGroupOf(run) == "100 % of 8.0 MiB: reference counts of str.");
  run.model.processes[1].copy_sites.clear();
  CHECK(LargestGroupOf(run).empty());
  // Places that differ in native code or further up the stack are one finding.
  Run grouped = OneWorker({{Cause::kRefcount, 10'000}});
  grouped.model.frames = {{"a.py", "f", 1}, {"b.py", "g", 2}};
  AddCopySite(&grouped, {Cause::kRefcount, "int", "", "", {1}}, 4000);
  AddCopySite(&grouped, {Cause::kRefcount, "str", "l", "one", {0}}, 3000);
  AddCopySite(&grouped, {Cause::kRefcount, "str", "l", "two", {0, 1}}, 3000);
  CHECK(LargestGroupOf(grouped) == "60 % of 39.1 MiB: reference counts of str, at a.py:1 in f.");
}

TEST_CASE("diagnosis: of any recording there is one, with a summary and nothing absurd") {
  const unsigned seed = GENERATE(range(1u, 21u));
  INFO("seed " << seed);
  RandomRecording recording(seed);
  Run run = {.model = {.info = recording.Info()}};
  for (int i = 0; i < 30; ++i) Append(recording.Next(), &run);
  const std::vector<Diagnosis> found = DiagnosesOf(run);
  REQUIRE_FALSE(found.empty());
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK_FALSE(found[i].summary.empty());
    CHECK_FALSE(found[i].evidence.empty());
    CHECK((found[i].confidence > 0 && found[i].confidence <= 1));
    CHECK((i == 0 || found[i].confidence <= found[i - 1].confidence));
    CHECK((found[i].id != "clean" || found.size() == 1));
  }
  LargestGroupOf(run);
}

}  // namespace cowprof
