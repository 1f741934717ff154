// The verdict in words and as JSON, against files in tests/golden that a person has read, and against
// schema/report.schema.json. COWPROF_UPDATE_GOLDEN=1 writes the files anew: read the difference.
#include "sink/report/report.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "builders.h"
#include "json_schema.h"
#include "judged.h"
#include "live_and_replay.h"
#include "random_recording.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

void CheckGolden(const std::string& name, const std::string& text) {
  const std::filesystem::path path = RepositoryRoot() / "tests" / "golden" / name;
  if (getenv("COWPROF_UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
  CHECK(ReadWhole(path) == text);
}

std::string JsonText(const Run& run) { return Dump(ReportJsonOf(run), 2) + "\n"; }

std::vector<std::string> SchemaErrors(const Run& run) {
  static const JsonSchema schema("report");
  const nlohmann::json json = nlohmann::json::parse(JsonText(run), nullptr, false);
  return json.is_discarded() ? std::vector<std::string>{"no JSON"} : schema.Errors(json);
}

Event Process(int index, int parent, Origin origin, const std::string& command) {
  return {.t = absl::Milliseconds(10 * index),
          .index = index,
          .what = ProcessStarted{
              .id = {4000 + index, 1}, .parent = parent, .origin = origin, .comm = "python3", .command = command}};
}
constexpr absl::Duration kLastEnd = absl::Milliseconds(41'500);
ProcessSample Row(int index, uint64_t copies, uint64_t anon_pages) {
  ProcessSample row = {.index = index};
  row.counts = {.faults = 3 * copies + 100,
                .kernel_faults = 12,
                .write_protect_faults = copies + 9,
                .copies = copies,
                .kernel_copies = 3,
                .zero_upgrades = 2,
                .zero_fill_pages = 40,
                .file_copies = 5,
                .shm_pages = 0,
                .swap_ins = 0};
  row.proc = {.anon_pages = anon_pages, .file_pages = 900, .threads = 1};
  return row;
}

// A trainer, a worker that copied nearly all, one that was killed, one that nothing is known of, a helper, and a
// process with a command that would like to be more than text.
constexpr char kTrain[] = "python3 train.py --data /data";
const RunInfo kTraining = {.kernel = "6.18.0",
                           .page_bytes = 4096,
                           .rung = "btf-tracepoints",
                           .exactness = Exactness::kExact,
                           .target = {4000, 1},
                           .command = kTrain};

std::vector<Sample> TrainingSamples() {
  const LimitSample shm = {LimitKind::kShm, "/dev/shm", 67'108'864, 60'397'978},
                    cgroup = {LimitKind::kCgroupV2, "/job/7", {}, 3'000'000'000},
                    files = {LimitKind::kDescriptors, "RLIMIT_NOFILE", 1024, 118};
  ProcessSample unknown = {.index = 3};
  const Sample first = {
      .t = absl::Milliseconds(100),
      .events = {Process(0, -1, Origin::kTarget, kTrain), Process(1, 0, Origin::kForked, kTrain),
                 Process(2, 0, Origin::kForked, kTrain), Process(3, 0, Origin::kFoundAtAttach, kTrain),
                 Process(4, 0, Origin::kFoundAtAttach,
                         "python3 -c from multiprocessing.resource_tracker import main;main(4)"),
                 Process(5, 1, Origin::kFoundAtAttach, "\x1b[2J\"evil\"\n\xff")},
      .processes = {Row(0, 0, 80'000), Row(1, 0, 80'000), Row(2, 0, 80'000), unknown, {.index = 4}, {.index = 5}},
      .limits = {shm, cgroup, {LimitKind::kDescriptors, "RLIMIT_NOFILE", 1024, 300}}};
  ProcessSample target = Row(0, 1200, 80'010);
  target.sweep = SweepFigures{.begin = absl::Seconds(40),
                              .end = absl::Milliseconds(40'250),
                              .full = true,
                              .private_pages = 4000,
                              .shared_pages = 76'010,
                              .diverged_pages = 1300,
                              .same_pages = 76'000,
                              .new_pages = 10};
  ProcessSample worker = Row(1, 79'981, 80'050);
  worker.framework = Framework::kDataLoader;
  worker.rollup = RollupFigures{
      .t = absl::Seconds(42), .rss_bytes = 331'570'000, .pss_bytes = 330'000'000, .private_bytes = 329'000'000};
  const Sample last = {.t = absl::Milliseconds(42'000),
                       .events = {Exited(2, SIGKILL, kLastEnd), Exited(4, 3 << 8, kLastEnd)},
                       .processes = {target, worker, Row(2, 512, 79'000), unknown, {.index = 4}, {.index = 5}},
                       .limits = {shm, cgroup, files},
                       .losses = {.events_dropped = 1, .unreadable = 2}};
  return {first, last};
}

Run Training() {
  Run run = {.model = {.info = kTraining}};
  for (const Sample& sample : TrainingSamples()) Append(sample, &run);
  return run;
}

}  // namespace

TEST_CASE("the report of a training in words") {
  CheckGolden("report_training.txt", ReportTextOf(Training(), /*complete=*/true));
  CheckGolden("report_cut_off.txt", ReportTextOf(Training(), /*complete=*/false));
}

// Lines before the header of the first table.
size_t LinesFirst(const std::string& text) {
  return std::count(text.begin(), text.begin() + text.find("  pid       copies"), '\n');
}

TEST_CASE("the tables begin on line 26 at the latest") {
  CHECK(LinesFirst(ReportTextOf(Training(), /*complete=*/true)) <= 25);
  struct Copied {
    Cause cause;
    std::vector<std::string> types;
  };
  const Copied kinds[] = {{Cause::kRefcount, {"str", "dict"}},
                          {Cause::kRefcount, {"str"}},
                          {Cause::kRefcount, {"torch.Tensor"}},
                          {Cause::kRefcount, {"pandas.core.frame.DataFrame"}},
                          {Cause::kRefcount, {"list", "int"}},
                          {Cause::kNativeRefcount, {"c10::TensorImpl"}},
                          {Cause::kGcHeader, {"list"}},
                          {Cause::kData, {"numpy.ndarray"}},
                          {Cause::kMallocReuse, {"numpy.ndarray"}}};
  for (const Framework framework : kAll<Framework>) {
    for (const auto& [cause, types] : kinds) {
      Run run = {.model = {.info = kTraining}};
      ProcessSample worker = Row(1, 30'000, 80'000);
      worker.causes = CauseCounts{};
      worker.causes->at(static_cast<int>(cause)) = 30'000;
      worker.framework = framework;
      Append({.events = {Process(0, -1, Origin::kTarget, kTrain), Process(1, 0, Origin::kForked, kTrain)},
              .processes = {Row(0, 0, 80'000), worker}},
             &run);
      run.model.frames = {{"/home/me/train.py", "Reviews.__getitem__", 36}};
      for (const std::string& type : types) {
        const int number = static_cast<int>(run.model.copy_sites.size());
        run.model.copy_sites.push_back({cause, type, "", "", {0}});
        const uint64_t copies = 30'000 / types.size();
        run.model.processes[1].copy_sites[number] = {1, number, copies, copies, copies};
      }
      const std::string text = ReportTextOf(run, /*complete=*/true);
      INFO(text);
      REQUIRE(!DiagnosesOf(run).empty());
      CHECK(LinesFirst(text) <= 25);
      // The code is there, above the tables or below.
      const std::string sketch = DiagnosesOf(run)[0].sketch;
      CHECK(absl::StrContains(text, sketch.substr(0, sketch.find('\n'))));
      CHECK(absl::StrContains(text, DiagnosesOf(run)[0].advice.back().substr(0, 20)));
    }
  }
}

TEST_CASE("what is said of a training live and on replay") {
  LiveAndReplay live(kTraining);
  for (const Sample& sample : TrainingSamples()) live.Tick(sample);
  live.Check();
}

TEST_CASE("the report of a training as JSON") {
  CheckGolden("report_training.json", JsonText(Training()));
  CHECK(SchemaErrors(Training()) == std::vector<std::string>{});
}

TEST_CASE("the report of a recording without an end is not complete") {
  const Run run = Training();
  CHECK(ReportJson(run.model, Judge(run), /*complete=*/false)["complete"] == false);
  CHECK(ReportJsonOf(run)["complete"] == true);
}

TEST_CASE("figures of the report that can be checked on paper") {
  const nlohmann::ordered_json json = ReportJsonOf(Training());
  const auto& worker = json["workers"][0];
  CHECK(worker["copies"] == 79'981);
  CHECK(worker["copied_bytes"] == 79'981 * 4096);
  CHECK(worker["reuses"] == 7);
  CHECK(worker["ceiling_bytes"] ==
        worker["private_bytes"].get<uint64_t>() + worker["still_shared_bytes"].get<uint64_t>());
  CHECK(json["totals"]["copies"] == 1200 + 79'981 + 512);
  CHECK(json["target"]["start_method"] == "fork");
  const nlohmann::ordered_json end = {{"kind", "signaled"},          {"code", 137},
                                      {"signal", "SIGKILL"},         {"cause", nullptr},
                                      {"text", "killed by SIGKILL"}, {"evidence", nlohmann::ordered_json::array()}};
  CHECK(json["workers"][1]["exit"] == end);
  CHECK(json["workers"][3]["exit"]["kind"] == "exited");
  CHECK(json["workers"][3]["exit"]["code"] == 3);
  CHECK(json["workers"][3]["role"] == "helper");
  CHECK(json["workers"][3]["worker"] == false);
  CHECK(worker["worker"] == true);
  // Not known is null, never 0.
  for (const char* key :
       {"faults", "write_protect_faults", "copies", "reuses", "zero_fills", "copied_bytes", "private_bytes",
        "peak_private_bytes", "pss_bytes", "still_shared_bytes", "ceiling_bytes", "exit", "ended_at"}) {
    INFO(key);
    CHECK(json["workers"][2][key].is_null());
  }
  CHECK(json["limits"][1]["limit"].is_null());
  CHECK(json["limits"][1]["ratio"].is_null());
  CHECK(json["limits"][1]["peak_ratio"].is_null());
  CHECK(json["limits"][2]["peak_ratio"] == 300.0 / 1024);
  CHECK(json["limits"][2]["used"] == 118);
  CHECK(json["limits"][2]["peak"] == 300);
  CHECK(json["limits"][2]["unit"] == "count");
  CHECK(json["losses"]["events_dropped"] == 1);
}

TEST_CASE("an empty recording and one without a worker") {
  Run run;
  CheckGolden("report_empty.txt", ReportTextOf(run, false));
  CHECK(SchemaErrors(run) == std::vector<std::string>{});
  CHECK(ReportJsonOf(run)["target"]["start_method"] == "none");
  run.model.info = Training().model.info;
  Append({.t = absl::Seconds(1), .events = {Process(0, -1, Origin::kTarget, "sleep 9")}, .processes = {Row(0, 7, 50)}},
         &run);
  CheckGolden("report_alone.txt", ReportTextOf(run, true));
  CHECK(SchemaErrors(run) == std::vector<std::string>{});
}

TEST_CASE("nothing in a name reaches the terminal raw") {
  Run run = Training();
  run.model.info.command = run.model.processes[0].command = "\x1b]0;title\x07\n\xe2\x80\xae";
  run.model.limits[0].now.name = run.model.limits[0].now.name = "/dev/\x1b[2Jshm\n";
  const std::string text = ReportTextOf(run, true);
  CHECK_FALSE(absl::StrContains(text, "\x1b"));
  CHECK_FALSE(absl::StrContains(text, "\x07"));
  CHECK_FALSE(absl::StrContains(text, "\xe2\x80\xae"));
}

TEST_CASE("many workers: those that copied most are listed, the rest is counted") {
  Run run;
  Append({.events = {Process(0, -1, Origin::kTarget, "t")}}, &run);
  for (int i = 1; i <= 100; ++i) {
    Append({.events = {Process(i, 0, Origin::kForked, "t")}, .processes = {Row(i, i, 500)}}, &run);
  }
  const std::string text = ReportTextOf(run, true);
  CHECK(absl::StrContains(text, "4100 "));
  CHECK_FALSE(absl::StrContains(text, " 4001 "));
  CHECK(absl::StrContains(text, "... and 68 more\n"));
}

TEST_CASE("helpers that came and went take no lines, unless they hold memory or ended badly") {
  Run run;
  run.model.info.page_bytes = 4096;
  Append({.events = {Process(0, -1, Origin::kTarget, "t")}}, &run);
  for (int i = 1; i <= 4; ++i) {
    Append({.events = {Process(i, 0, Origin::kForked, "t")}, .processes = {Row(i, i == 1 ? 500 : 5, 50)}}, &run);
  }
  for (int i = 1; i <= 4; ++i) {
    run.model.processes[i].role = Role::kHelper;
    if (i < 4) run.model.processes[i].exit = Exit{.code = i == 2 ? 1 : 0};
  }
  const std::string text = ReportTextOf(run, true);
  for (const char* shown : {" 4001 ", " 4002 ", " 4004 "}) CHECK(absl::StrContains(text, shown));
  CHECK_FALSE(absl::StrContains(text, " 4003 "));
  CHECK(absl::StrContains(text, "... and 1 more\n"));
}

TEST_CASE("the nearest limit is the fullest one that is set") {
  Run run;
  CHECK(Judge(run, Detail::kTick).nearest_limit == -1);
  run.model.limits = {{.now = {LimitKind::kHost, "none", {}, 900}},
                      {.now = {LimitKind::kShm, "half", 100, 50}},
                      {.now = {LimitKind::kDescriptors, "most", 10, 9}},
                      {.now = {LimitKind::kShm, "zero", 0, 5}}};
  CHECK(Judge(run, Detail::kTick).nearest_limit == 2);
}

TEST_CASE("losses in words") {
  CHECK(LossesText({}).empty());
  CHECK(LossesText({.events_dropped = 1, .processes_dropped = 1, .unreadable = 1}) ==
        "events dropped: 1; processes dropped: 1; failed reads: 1");
  CHECK(LossesText({.events_dropped = 2,
                    .processes_dropped = 2,
                    .unattributed_copies = 16063,
                    .regions_dropped = 2000,
                    .unreadable = 2,
                    .records_dropped = 2}) ==
        "events dropped: 2; processes dropped: 2; copies without a process: 16,063; regions dropped: 2,000; "
        "failed reads: 2; samples not written: 2");
  CHECK(LossesText({.unplaced_copies = 3, .unplaced_new_pages = 1024, .heaps_dropped = 1}) ==
        "copies without a line: 3; new pages without a line: 1,024; forks with free memory not noted: 1");
}

TEST_CASE("a loss makes counts too low only if something was not counted") {
  using Sentences = std::vector<std::string>;
  CHECK(Warnings({}, /*complete=*/true).empty());
  CHECK(Warnings({}, /*complete=*/false) ==
        Sentences{"This recording has no end: still running, killed, or the file was cut off."});
  CHECK(Warnings({.unplaced_copies = 9, .pages_dropped = 3, .unreadable = 1}, true) ==
        Sentences{"Losses while recording: copies without a line: 9; pages not on the map: 3; failed reads: 1."});
  const std::vector<Losses> uncounted = {
      {.events_dropped = 1}, {.processes_dropped = 1}, {.threads_refused = 1}, {.probes_skipped = 1}};
  for (const Losses& lost : uncounted) CHECK(absl::EndsWith(Warnings(lost, true).at(0), ": 1. Counts may be too low."));
  CHECK(absl::EndsWith(Warnings({.records_dropped = 2}, true).at(0), ": 2. Peaks may be too low."));
  CHECK(absl::EndsWith(Warnings({.events_dropped = 1, .records_dropped = 2}, true).at(0),
                       ": 2. Counts and peaks may be too low."));
}

TEST_CASE("the report of any recording keeps to its schema") {
  const unsigned seed = GENERATE(range(1u, 13u));
  INFO("seed " << seed);
  RandomRecording recording(seed);
  Run run = {.model = {.info = recording.Info()}};
  for (int i = 0; i < 30; ++i) Append(recording.Next(), &run);
  CHECK(SchemaErrors(run) == std::vector<std::string>{});
  CHECK_FALSE(ReportTextOf(run, seed % 2).empty());
}

}  // namespace cowprof
