// Each diagnosis on a recording in which it was planted, and on those in which the contract forbids it (the report's
// contract, "must not fire when"). Pages are of 4096 bytes, so that 2048 of them are the 8 MiB below which nothing is a
// finding.
#include "model/diagnosis.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/words.h"
#include "random_recording.h"

namespace cowprof {
namespace {

using ByCause = std::map<Cause, uint64_t>;
constexpr uint64_t kNoise = 2048;  // pages

Event Process(int index, int parent, const std::string& command) {
  Event event = {.kind = EventKind::kProcess, .index = index};
  event.id = {1000 + index, 7};
  event.parent = parent;
  event.origin = index == 0 ? Origin::kTarget : Origin::kForked;
  event.command = command;
  return event;
}

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
Growth With(const ByCause& parent, const std::vector<ByCause>& workers) {
  Growth growth;
  Sample sample = {.events = {Process(0, -1, "python train.py")}, .processes = {Row(0, parent)}};
  for (size_t i = 0; i < workers.size(); ++i) {
    sample.events.push_back(Process(i + 1, 0, "python train.py"));
    sample.processes.push_back(Row(i + 1, workers[i]));
  }
  Append(sample, &growth);
  return growth;
}
Growth OneWorker(const ByCause& copies) { return With({}, {copies}); }

std::vector<std::string> IdsOf(const Growth& growth) {
  std::vector<std::string> ids;
  for (const Diagnosis& diagnosis : Diagnose(growth)) ids.push_back(diagnosis.id);
  return ids;
}
using Ids = std::vector<std::string>;

Diagnosis Find(const Growth& growth, const std::string& id) {
  for (const Diagnosis& diagnosis : Diagnose(growth)) {
    if (diagnosis.id == id) return diagnosis;
  }
  FAIL("no " << id << " but " << absl::StrJoin(IdsOf(growth), " "));
  return {};
}

std::string TextOf(const Diagnosis& diagnosis) {
  return absl::StrCat(diagnosis.summary, "\n", absl::StrJoin(diagnosis.evidence, "\n"), "\n",
                      absl::StrJoin(diagnosis.advice, "\n"));
}

// Adds a place for all of worker 1's copies of a cause.
void AddPlace(Growth* growth, const Place& place, uint64_t copies, uint64_t each = 1) {
  const int number = static_cast<int>(growth->places.size());
  growth->places.push_back(place);
  growth->processes[1].places[number] = {1, number, copies, copies / each, copies * each};
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
  Growth grows = OneWorker({{Cause::kRefcount, 200}});
  grows.processes[1].counts.zero_fill_pages = 1'000'000;
  CHECK(IdsOf(grows) == Ids{"clean"});
}

TEST_CASE("diagnosis: the collector does not fire where reference counts grow, and the advice says what freeze does") {
  const Growth growth = OneWorker({{Cause::kRefcount, 50'000}, {Cause::kGcHeader, 4000}});
  CHECK(IdsOf(growth) == Ids{"cow-refcount"});
  CHECK(absl::StrContains(TextOf(Find(growth, "cow-refcount")), "gc.freeze() does not help"));
  const std::string collector = TextOf(Find(OneWorker({{Cause::kGcHeader, 50'000}}), "cow-gc-header"));
  CHECK(absl::StrContains(collector, "gc.freeze() in the parent before the workers are forked"));
}

TEST_CASE("diagnosis: several at once, the largest first") {
  CHECK(IdsOf(OneWorker({{Cause::kRefcount, 20'000}, {Cause::kGcHeader, 70'000}, {Cause::kData, 10'000}})) ==
        Ids{"cow-gc-header", "cow-refcount", "cow-data"});
  CHECK(IdsOf(OneWorker({{Cause::kRefcount, 60'000}, {Cause::kGcHeader, 40'000}})) ==
        Ids{"cow-refcount", "cow-gc-header"});
  for (const Diagnosis& diagnosis : Diagnose(OneWorker({{Cause::kRefcount, 1'000'000}}))) {
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
  Growth growth = OneWorker({{Cause::kRefcount, 200}});
  CHECK(IdsOf(growth) == Ids{"clean"});
  growth.info.page_bytes = 65'536;
  CHECK(IdsOf(growth) == Ids{"cow-refcount"});
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
  const Growth growth = With({}, {{{Cause::kRefcount, 5000}}, {{Cause::kRefcount, 30}}, {{Cause::kRefcount, 9000}}});
  CHECK(Find(growth, "cow-refcount").pids == std::vector<pid_t>{1001, 1003});
}

TEST_CASE("diagnosis: pids are those of the cause") {
  const Growth growth = With({}, {{{Cause::kRefcount, 50'000}, {Cause::kData, 40}},
                                  {{Cause::kData, 30'000}, {Cause::kKernel, 20'000}},
                                  {{Cause::kRefcount, 9000}, {Cause::kKernel, 1000}}});
  CHECK(Find(growth, "cow-refcount").pids == std::vector<pid_t>{1001, 1003});
  CHECK(Find(growth, "cow-data").pids == std::vector<pid_t>{1002, 1003});
}

TEST_CASE("diagnosis: noise is what a worker copies, however many there are") {
  const auto ids = [](uint64_t refcount) {
    return IdsOf(With({}, {100, ByCause{{Cause::kFree, kNoise}, {Cause::kRefcount, refcount}}}));
  };
  CHECK(ids(kNoise - 1) == Ids{"clean"});
  CHECK(ids(kNoise) == Ids{"cow-refcount"});
}

TEST_CASE("diagnosis: what was spawned has inherited nothing") {
  Growth growth = OneWorker({{Cause::kData, 50'000}});
  growth.processes[1].command = "python -c spawn_main() --multiprocessing-fork";
  CHECK(IdsOf(growth) == Ids{"cow-data"});  // forked from one that was spawned
  growth.processes[1].execed = true;
  CHECK(IdsOf(growth) == Ids{"clean"});
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
  Growth growth = With({{Cause::kRefcount, 300}}, {{}});
  growth.processes[0].counts.write_protect_faults = 1'000'000;
  CHECK(IdsOf(growth) == Ids{"clean"});
}

TEST_CASE("diagnosis: without workers") {
  Growth alone = With({{Cause::kRefcount, 50'000}}, {});
  CHECK(IdsOf(alone) == Ids{"clean"});
  CHECK(absl::StrContains(Diagnose(alone)[0].summary, "No worker was forked"));
  // One that only made another program run has nobody that inherited its memory.
  Growth runs_another = With({{Cause::kRefcount, 50'000}}, {{}});
  runs_another.processes[1].execed = true;
  runs_another.processes[1].role = Role::kOther;
  CHECK(IdsOf(runs_another) == Ids{"clean"});
}

TEST_CASE("diagnosis: nothing is said where causes are not known") {
  CHECK(Diagnose({}).empty());
  Growth growth = OneWorker({{Cause::kRefcount, 50'000}});
  for (ProcessGrowth& process : growth.processes) process.causes.reset();
  CHECK(Diagnose(growth).empty());
  CHECK(TopFinding({}).empty());
}

TEST_CASE("diagnosis: clean says how much was copied all the same") {
  const Growth growth = With({}, {{{Cause::kRefcount, 256}}, {{Cause::kData, 512}}});
  const Diagnosis clean = Find(growth, "clean");
  CHECK(clean.pids.empty());
  CHECK(absl::StrContains(clean.summary, "share what they should"));
  CHECK(absl::StrContains(TextOf(clean), "3.0 MiB"));
  CHECK(absl::StrContains(TextOf(clean), "at most 2.0 MiB by one"));
}

TEST_CASE("diagnosis: what is said names bytes, shares, types and lines") {
  Growth growth = OneWorker({{Cause::kRefcount, 23'040}, {Cause::kFree, 2560}});
  growth.frames = {{"/app/coco.py", "CocoDataset.__getitem__", 41}, {"/app/train.py", "main", 3}};
  AddPlace(&growth, {Cause::kRefcount, "str", "libpython3.11.so", "PyList_GetItem", {0, 1}}, 18'432);
  AddPlace(&growth, {Cause::kRefcount, "dict", "libpython3.11.so", "PyDict_GetItem", {1}}, 4608);
  AddPlace(&growth, {Cause::kFree, "tuple", "libpython3.11.so", "tupledealloc", {1}}, 2560);
  const Diagnosis diagnosis = Find(growth, "cow-refcount");
  INFO(TextOf(diagnosis));
  CHECK(absl::StrContains(diagnosis.summary, "90.0 MiB"));
  REQUIRE(diagnosis.evidence.size() == 5);
  CHECK(diagnosis.evidence[0] == "23,040 of 25,600 copies (90 %, 90.0 MiB)");
  CHECK(diagnosis.evidence[1] == "80 %: objects of type str");
  CHECK(diagnosis.evidence[2] == "20 %: objects of type dict");
  CHECK(diagnosis.evidence[3] == "80 %: /app/coco.py:41 in CocoDataset.__getitem__");
  CHECK(diagnosis.evidence[4] == "20 %: /app/train.py:3 in main");
  CHECK(absl::StrContains(TextOf(diagnosis), "would have kept 90.0 MiB shared"));
  CHECK(TopFinding(growth) == "72 % of 100.0 MiB: reference counts of str, at coco.py:41 in CocoDataset.__getitem__.");
}

TEST_CASE("diagnosis: a sampled figure is called estimated") {
  Growth growth = OneWorker({{Cause::kData, 25'600}});
  AddPlace(&growth, {Cause::kData, "", "libc.so.6", "memcpy", {}}, 24'000, 10);
  CHECK(TopFinding(growth) == "100 % of 100.0 MiB: data (estimated).");
  growth.places[0].type = "numpy.ndarray";
  CHECK(Find(growth, "cow-data").evidence[1] == "100 % (estimated): objects of type numpy.ndarray");
}

TEST_CASE("diagnosis: no more than three types and lines, and none that is next to nothing") {
  Growth growth = OneWorker({{Cause::kRefcount, 10'000}});
  for (const auto& [type, copies] :
       std::map<std::string, uint64_t>{{"a", 4000}, {"b", 3000}, {"c", 2000}, {"d", 600}, {"e", 400}}) {
    AddPlace(&growth, {Cause::kRefcount, type, "", "", {}}, copies);
  }
  CHECK(Find(growth, "cow-refcount").evidence.size() == 4);
  Growth scattered = OneWorker({{Cause::kRefcount, 10'000}});
  for (int i = 0; i < 50; ++i) AddPlace(&scattered, {Cause::kRefcount, absl::StrCat("t", i), "", "", {}}, 200);
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
  Growth growth = OneWorker({{Cause::kRefcount, 25'600}});
  growth.frames = {{"/tmp/\x1b[2J\n.py", "f\x07\xff", 1}};
  AddPlace(&growth, {Cause::kRefcount, "evil\x1b]0;x\x07\r\xe2\x80\xae", "lib\n.so", "s\x1b", {0}}, 25'600);
  std::string text = TopFinding(growth);
  for (const Diagnosis& diagnosis : Diagnose(growth)) {
    for (const std::string& line : diagnosis.evidence) CHECK_FALSE(absl::StrContains(line, "\n"));
    text += TextOf(diagnosis);
  }
  CHECK(absl::StrContains(text, "evil\\x1b"));
  for (const char* raw : {"\x1b", "\x07", "\r", "\xff", "\xe2\x80\xae"}) CHECK_FALSE(absl::StrContains(text, raw));
  growth.places[0].type = std::string(100'000, 'x');
  CHECK(TopFinding(growth).size() < 1000);
}

TEST_CASE("finding: the largest group, or nothing where there is none") {
  Growth growth = OneWorker({{Cause::kRefcount, kNoise}});
  AddPlace(&growth, {Cause::kRefcount, "str", "", "", {}}, kNoise);
  CHECK(TopFinding(growth).empty());
  growth.processes[1].counts.copies = kNoise + 1;
  CHECK(TopFinding(growth) == "100 % of 8.0 MiB: reference counts of str.");
  growth.processes[1].places.clear();
  CHECK(TopFinding(growth).empty());
  // Places that differ in native code or further up the stack are one finding.
  Growth grouped = OneWorker({{Cause::kRefcount, 10'000}});
  grouped.frames = {{"a.py", "f", 1}, {"b.py", "g", 2}};
  AddPlace(&grouped, {Cause::kRefcount, "int", "", "", {1}}, 4000);
  AddPlace(&grouped, {Cause::kRefcount, "str", "l", "one", {0}}, 3000);
  AddPlace(&grouped, {Cause::kRefcount, "str", "l", "two", {0, 1}}, 3000);
  CHECK(TopFinding(grouped) == "60 % of 39.1 MiB: reference counts of str, at a.py:1 in f.");
}

TEST_CASE("diagnosis: of any recording there is one, with a summary and nothing absurd") {
  const unsigned seed = GENERATE(range(1u, 21u));
  INFO("seed " << seed);
  RandomRecording recording(seed);
  Growth growth = {.info = recording.Info()};
  for (int i = 0; i < 30; ++i) Append(recording.Next(), &growth);
  const std::vector<Diagnosis> found = Diagnose(growth);
  REQUIRE_FALSE(found.empty());
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK_FALSE(found[i].summary.empty());
    CHECK_FALSE(found[i].evidence.empty());
    CHECK((found[i].confidence > 0 && found[i].confidence <= 1));
    CHECK((i == 0 || found[i].confidence <= found[i - 1].confidence));
    CHECK((found[i].id != "clean" || found.size() == 1));
  }
  TopFinding(growth);
}

}  // namespace cowprof
