// What each remedy would save, of runs that are made by hand.
#include "model/judge/remedies.h"

#include <catch2/catch.hpp>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "builders.h"
#include "judged.h"
#include "model/judge/findings.h"

namespace cowprof {
namespace {

constexpr uint64_t kMiB = 1 << 20, kPage = 4096;

// Two workers that copied `refcount` and `gc` MiB each, with what was seen of the start methods.
Run Recorded(uint64_t refcount, uint64_t gc, std::optional<PickleLook> look = std::nullopt) {
  Run run;
  run.model.info.exactness = Exactness::kExact;
  Sample first = {.t = absl::Seconds(1), .events = {Started(0, -1), Started(1, 0), Started(2, 0)}};
  Sample last = {.t = absl::Seconds(9)};
  for (const int index : {0, 1, 2}) {
    ProcessSample row = {.index = index};
    row.counts.copies = row.counts.zero_fill_pages = row.counts.zero_upgrades = 0;
    row.proc.anon_pages = 400 * kMiB / kPage;
    row.causes = CauseCounts{};
    first.processes.push_back(row);
    if (index > 0) {
      row.counts.copies = (refcount + gc) * kMiB / kPage;
      (*row.causes)[static_cast<int>(Cause::kRefcount)] = refcount * kMiB / kPage;
      (*row.causes)[static_cast<int>(Cause::kGcHeader)] = gc * kMiB / kPage;
    }
    last.processes.push_back(row);
  }
  if (look) last.events.push_back({.t = last.t, .index = 0, .what = StartMethodsSeen{*look}});
  Append(first, &run);
  Append(last, &run);
  return run;
}

const Remedy* Find(const std::vector<Remedy>& remedies, const std::string& id) {
  for (const Remedy& remedy : remedies) {
    if (remedy.id == id) return &remedy;
  }
  return nullptr;
}

TEST_CASE("gc.freeze saves the collector's share and none of the counts'", "[remedies]") {
  const std::vector<Remedy> remedies = Judge(Recorded(100, 50)).remedies;
  const Remedy* freeze = Find(remedies, "gc-freeze");
  REQUIRE(freeze != nullptr);
  CHECK(freeze->saves->high == Approx(100 * kMiB).epsilon(0.01));
  CHECK(freeze->cost.find("and not in the parent until that calls gc.unfreeze()") != std::string::npos);
  CHECK(freeze->saves->low == 0);  // what workers read as well, they copy all the same
  CHECK(Find(Judge(Recorded(1, 50)).remedies, "gc-freeze")->saves->low == Approx(80 * kMiB).epsilon(0.01));
  const Remedy* buffer = Find(remedies, "serialise");
  REQUIRE(buffer != nullptr);
  CHECK(buffer->saves->high == Approx(200 * kMiB).epsilon(0.01));
  CHECK(Find(Judge(Recorded(100, 0)).remedies, "gc-freeze") == nullptr);
}

TEST_CASE("what is done before a forkserver forks is done in what it preloads", "[remedies]") {
  Run run = Recorded(1, 50);
  for (ProcessModel& process : run.model.processes) process.duty.start = StartMethod::kForkserver;
  const std::vector<Remedy> remedies = Judge(run).remedies;
  for (const char* id : {"gc-freeze", "gc-disable"}) {
    const Remedy* remedy = Find(remedies, id);
    REQUIRE(remedy != nullptr);
    CHECK(
        remedy->action.ends_with(" at the end of the last module that multiprocessing.set_forkserver_preload() names "
                                 "(Python 3.13.8, 3.14.1 and later: by default the main module)"));
    CHECK(remedy->cost.find("parent") == std::string::npos);
  }
}

TEST_CASE("a buffer costs the unpickling of an item, where its kinds and their rates are known", "[remedies]") {
  PickleLook look = {.root = "loader", .python = "3.11.2", .walks_agree = true};
  const auto buffer = [&] { return *Find(Judge(Recorded(100, 0, look)).remedies, "serialise"); };
  CHECK_FALSE(buffer().cost_seconds_per_item);
  look.items = PickleItems{.path = "loader.dataset.rows",
                           .type = "list",
                           .count = 60'000,
                           .sampled = 64,
                           .mix = {.numbers = 128, .texts = 512, .text_bytes = 5000, .dicts = 64}};
  const Remedy said = buffer();
  REQUIRE(said.cost_seconds_per_item);
  CHECK(said.cost.find("one of the 60,000 of loader.dataset.rows") != std::string::npos);
  CHECK(said.cost.find("(1 dict, 8 str or bytes, 2 int)") != std::string::npos);
  look.python = "3.15.0";
  CHECK_FALSE(buffer().cost_seconds_per_item);
  CHECK(buffer().cost == "Each access unpickles its item; `cowprof pickle PID` measures how long that takes.");
}

TEST_CASE("items that share objects are not pickled one by one; those of a dict keep their keys", "[remedies]") {
  PickleLook look = {.root = "loader", .python = "3.11.2", .walks_agree = true};
  look.held = PickleSize{.low = 100 * kMiB, .best = 110 * kMiB, .high = 120 * kMiB};
  look.items = PickleItems{.path = "loader.dataset.items",
                           .type = "list",
                           .count = 400'000,
                           .sampled = 64,
                           .mix = {.texts = 64 * 150, .text_bytes = 64 * 2000, .lists = 64, .instances = 128}};
  const auto told = [&](uint64_t bytes_of_item) {
    look.items->bytes = 64 * bytes_of_item;
    const Findings findings = Judge(Recorded(100, 0, look));
    const Remedy* const buffer = Find(findings.remedies, "serialise");
    return std::make_tuple(buffer->obstacle, buffer->cost, findings.diagnoses.at(0).advice.at(0),
                           findings.diagnoses.at(0).sketch);
  };
  const auto [obstacle, cost, advice, sketch] = told(4000);
  CHECK(obstacle ==
        "items share objects, and pickled one by one all 400,000 of loader.dataset.items would take about 1.5 GiB; as "
        "they are they take about 110.0 MiB");
  CHECK(advice.ends_with(absl::StrCat("Don't pickle them into one buffer: ", obstacle, ".")));
  CHECK(sketch == "");
  const auto [no_obstacle, with_buffer, usual, packed] = told(100);
  CHECK(no_obstacle == "");
  CHECK(with_buffer.ends_with(" The buffer takes about 38.1 MiB."));
  CHECK(usual.find("or all items pickled into one buffer.") != std::string::npos);
  CHECK(packed.find("items = Packed(load())") != std::string::npos);
  CHECK(std::get<0>(told(0)) == "");    // an older recording
  CHECK(std::get<0>(told(700)) == "");  // 267 MiB: a sample that met the longest texts
  CHECK(std::get<0>(told(1000)) != "");
  look.items->type = "dict";
  CHECK(std::get<3>(told(100)).ends_with("items = PackedDict(load())"));
  look.items->mix.tensors = 64;
  CHECK(std::get<1>(told(100)).ends_with("pickle its clone()."));
}

TEST_CASE("start methods save what was copied, less what each worker holds", "[remedies]") {
  PickleLook look = {.root = "loader", .walks_agree = true, .bytes = {10 * kMiB, 10 * kMiB, 10 * kMiB}};
  look.held = PickleSize{.low = 30 * kMiB, .best = 40 * kMiB, .high = 50 * kMiB};
  Run run = Recorded(300, 0, look);
  const std::vector<Remedy> remedies = Judge(run).remedies;
  const Remedy* spawn = Find(remedies, "spawn");
  REQUIRE(spawn != nullptr);
  CHECK(spawn->saves->high == Approx(600.0 * kMiB - 2 * 30.0 * kMiB));
  CHECK(spawn->saves->best == Approx(600.0 * kMiB - 2 * 400.0 * kMiB));
  CHECK(spawn->saves->low == Approx(600.0 * kMiB - 2 * (360.0 + 50.0) * kMiB));
  CHECK(spawn->obstacle == "");
  // They were started so.
  for (const StartMethod method : {StartMethod::kSpawn, StartMethod::kForkserver}) {
    for (ProcessModel& process : run.model.processes) process.duty.start = method;
    CHECK(Find(Judge(run).remedies, "spawn") == nullptr);
  }
  // Servers have no start method to choose.
  for (const Framework server : {Framework::kGunicorn, Framework::kCelery}) {
    Run served = Recorded(300, 0, look);
    for (ProcessModel& process : served.model.processes) process.framework = server;
    CHECK(Find(Judge(served).remedies, "spawn") == nullptr);
  }
  Run uwsgi = Recorded(300, 0, look);
  for (ProcessModel& process : uwsgi.model.processes) process.comm = "uwsgi";
  CHECK(Find(Judge(uwsgi).remedies, "spawn") == nullptr);
  look.failures = {{.path = "dataset.logger", .type = "_thread.lock", .confirmed = true}};
  const std::vector<Remedy> failing = Judge(Recorded(300, 0, look)).remedies;
  CHECK(Find(failing, "spawn")->obstacle == "fails at dataset.logger (a _thread.lock)");
  CHECK(failing.back().id == "spawn");  // what does not work comes last
}

TEST_CASE("what a plain Process is sent is not told of a DataLoader's workers", "[remedies]") {
  PickleLook look = {.root = "process_obj", .walks_agree = true, .bytes = {4096, 4096, 4096}};
  look.held = PickleSize{.low = 4096, .best = 4096, .high = 4096};
  const auto told = [&](std::optional<bool> of_loader, Framework framework) {
    look.of_loader = of_loader;
    Run run = Recorded(300, 0, look);
    for (ProcessModel& process : run.model.processes) process.framework = framework;
    const bool remedy = Find(Judge(run).remedies, "spawn") != nullptr;
    CHECK((ReportTextOf(run, /*complete=*/true).find("process_obj") != std::string::npos) == remedy);
    CHECK(ReportJsonOf(run)["start_methods"][0]["sentence"].is_null() != remedy);
    return remedy;
  };
  CHECK_FALSE(told(false, Framework::kDataLoader));
  CHECK(told(true, Framework::kDataLoader));
  CHECK(told(std::nullopt, Framework::kDataLoader));  // an old recording
  CHECK(told(false, Framework::kPool));
  CHECK_FALSE(told(true, Framework::kPool));
  CHECK(told(true, Framework::kFork));
}

TEST_CASE("of several looks at what workers would be sent a DataLoader's counts, and the largest", "[remedies]") {
  Run run = Recorded(300, 0);
  const auto counts = [&](const char* root, std::optional<bool> of_loader, uint64_t bytes) {
    const PickleLook look = {.root = root, .of_loader = of_loader, .bytes = {bytes, bytes, bytes}};
    Append({.t = run.model.t + absl::Seconds(1), .events = {{.index = 0, .what = StartMethodsSeen{look}}}}, &run);
    return run.model.start_methods->look.root;
  };
  CHECK(counts("", std::nullopt, 0).empty());
  CHECK(counts("p", false, 9 * kMiB) == "p");
  CHECK(counts("val_loader", true, kMiB) == "val_loader");
  CHECK(counts("train_loader", true, 8 * kMiB) == "train_loader");
  CHECK(counts("val_loader", true, kMiB) == "train_loader");
  CHECK(counts("q", false, 99 * kMiB) == "train_loader");
  CHECK(counts("", std::nullopt, 0) == "train_loader");
}

TEST_CASE("a look at a worker that ends meanwhile does not replace one that found what fails", "[remedies]") {
  const PickleFailure lock = {.path = "dataset.lock", .type = "_thread.lock", .confirmed = true};
  const PickleSize size = {.low = 6'443'191, .best = 7'159'136, .high = {}};
  PickleLook found = {.root = "spawn()", .of_loader = false, .failures = {lock}, .capped = true, .bytes = size};
  PickleLook torn = {.root = "Process", .of_loader = false, .refused = 1, .capped = true, .bytes = size};
  torn.bytes.best += 775;  // a worker's Process has a queue beside
  const auto counts = [](const PickleLook& first, const PickleLook& second) {
    Run run = Recorded(300, 0, first);
    Append({.t = run.model.t + absl::Seconds(1), .events = {{.index = 0, .what = StartMethodsSeen{second}}}}, &run);
    return run.model.start_methods->look.root;
  };
  CHECK(counts(found, torn) == "spawn()");
  CHECK(counts(torn, found) == "spawn()");
  torn.bytes.best *= 2;  // it is another one
  CHECK(counts(found, torn) == "Process");
}

TEST_CASE("one worker fewer saves a worker's part", "[remedies]") {
  const std::vector<Remedy> remedies = Judge(Recorded(100, 0)).remedies;
  const Remedy* fewer = Find(remedies, "fewer-workers");
  REQUIRE(fewer != nullptr);
  CHECK(fewer->saves->high == Approx(100 * kMiB).epsilon(0.02));
  CHECK(fewer->saves->low < kMiB);  // the other may copy all of it
  CHECK(fewer->cost == "Work takes correspondingly longer if the program waits for it.");
  Run native = Recorded(100, 0);
  for (ProcessModel& process : native.model.processes) process.framework = Framework::kNative;
  CHECK(Find(Judge(native).remedies, "fewer-workers") == nullptr);
}

TEST_CASE("where nothing was copied there is nothing to mend", "[remedies]") {
  CHECK(Judge(Run()).remedies.empty());
  CHECK(Judge(Recorded(0, 0)).remedies.empty());
}

TEST_CASE("remedies of any recording are finite and in order", "[remedies]") {
  for (const Remedy& remedy : Judge(Recorded(1, 1)).remedies) {
    if (!remedy.saves) continue;
    CHECK(remedy.saves->low <= remedy.saves->best);
    CHECK(remedy.saves->best <= remedy.saves->high);
  }
}

}  // namespace
}  // namespace cowprof
