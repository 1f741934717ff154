// The page's data, read back by a decoder of its own: every figure against the model's at that sample, what is left out
// where there is too much, numbers that nobody would believe, and a small page against tests/golden/page.json, which a
// person has read (columns as lists; COWPROF_UPDATE_GOLDEN=1 writes it anew).
#include "sink/page/page.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "builders.h"
#include "json_schema.h"
#include "judged.h"
#include "live_and_replay.h"
#include "model/judge/blame.h"
#include "page_reading.h"
#include "random_recording.h"
#include "sink/report/report.h"

namespace cowprof {
namespace {

using Column_ = std::vector<std::optional<double>>;

Event Process(int index, int parent) {
  return {.t = absl::Milliseconds(100 * index),
          .index = index,
          .what = ProcessStarted{.id = {4000 + index, 1},
                                 .parent = parent,
                                 .space = index == 0 ? -1 : 0,
                                 .origin = index == 0 ? Origin::kTarget : Origin::kForked,
                                 .command = "python3 train.py"}};
}
ProcessSample Row(int index, uint64_t copies, const CauseCounts& causes) {
  ProcessSample row = {.index = index, .causes = causes};
  row.counts.copies = copies;
  row.counts.zero_fill_pages = row.counts.zero_upgrades = row.counts.file_copies = 0;
  row.proc.anon_pages = 1000;
  return row;
}

struct Made {
  Run run;
  PageBuilder builder;
  std::vector<Sample> samples = {};
  void Add(const Sample& sample, const std::vector<Alert>& raised = {}) {
    samples.push_back(sample);
    Append(sample, raised, &run);
    builder.Add(sample, raised, run);
  }
  PageReading Read() const {
    return PageReading(absl::StrJoin(builder.Data(run.model, Judge(run), {.complete = true}).parts(), ""));
  }
};

// A trainer and a worker that copies by reading, meets its limit and is killed; a second one that comes late.
Made Training() {
  Made made;
  made.run.model.info = {
      .version = "9", .started = absl::UnixEpoch(), .kernel = "6.18.0", .interval = absl::Seconds(1)};
  made.run.model.info.rung = "btf-tracepoints";
  made.run.model.info.exactness = Exactness::kExact;
  const LimitSample shm = {LimitKind::kShm, "/dev/shm", 1 << 20, 1 << 19};
  made.Add({.t = absl::Seconds(1),
            .events = {Process(0, -1), Process(1, 0)},
            .processes = {Row(0, 0, {}), Row(1, 10, {8, 0, 0, 0, 0, 2})},
            .limits = {shm},
            .new_frames = {{"coco.py", "get", 41}, {"train.py", "main", 9}},
            .new_copy_sites = {{Cause::kRefcount, "str", "libpython.so", "PyList_GetItem", {0, 1}},
                               {Cause::kData, "", "libc.so.6", "memcpy", {1}}},
            .copy_sites = {{1, 0, 4, 2, 8}},
            .pages = {{1, Cause::kRefcount, 1024, 8}, {1, Cause::kData, 1100, 2}},
            .new_regions = {{0, {RegionKind::kPymallocArena, "", 4 << 20, 5 << 20}}},
            .regions = {{1, 0, 10, 990, 10, 980, 0}}});
  Alert alert = {.t = absl::Milliseconds(1900), .kind = LimitKind::kShm, .name = "/dev/shm", .index = 1};
  alert.text = "shared memory is nearly full";
  made.Add({.t = absl::Seconds(2),
            .processes = {Row(0, 5, {0, 0, 5}), Row(1, 110, {100, 0, 0, 0, 0, 10})},
            .limits = {shm},
            .copy_sites = {{1, 0, 90, 20, 500}, {1, 1, 10, 5, 50}}},
           {alert});
  made.Add({.t = absl::Seconds(4),
            .events = {Process(2, 0), Exited(1, SIGKILL, absl::Milliseconds(3500))},
            .processes = {Row(0, 5, {0, 0, 5}), Row(1, 111, {101, 0, 0, 0, 0, 10}), Row(2, 3, {3})},
            .limits = {shm, {LimitKind::kDescriptors, "RLIMIT_NOFILE", 1024, 7}}});
  return made;
}

// The whole of it with columns as lists, but for the report, which has a file of its own.
OrderedJson Readable(const PageReading& page, const OrderedJson& json) {
  const bool column =
      json.is_array() && json.size() == 3 && json[0].is_number_unsigned() && json[1].is_number_unsigned();
  if (column) {
    OrderedJson list = OrderedJson::array();
    for (const auto& value : page.Column(json))
      list.push_back(value ? OrderedJson(static_cast<int64_t>(*value)) : OrderedJson(nullptr));
    return list.dump();
  }
  OrderedJson out = json;
  if (json.is_structured()) {
    for (auto& [key, value] : out.items()) value = Readable(page, value);
  }
  return out;
}

Count Kib(const Count& bytes) { return bytes ? Count(*bytes / 1024) : std::nullopt; }

// Equal where a browser can hold the number, unknown where it can't.
bool Same(const std::optional<double>& shown, const Count& meant) {
  if (!meant || *meant >= uint64_t{1} << 52) return !shown;
  return shown && *shown == static_cast<double>(*meant);
}

}  // namespace

TEST_CASE("what is said of the page's recording live and on replay") {
  const Made made = Training();
  LiveAndReplay live(made.run.model.info);
  for (const Sample& sample : made.samples) live.Tick(sample);
  live.Check();
}

TEST_CASE("page: a column gives back every number that a browser can hold, and the others as unknown") {
  const uint64_t largest = (uint64_t{1} << 52) - 1;
  const std::vector<Count> values = {0, 1,       {},          1,          0,  63, 64,  65,  largest,
                                     0, largest, largest + 1, UINT64_MAX, {}, 7,  127, 128, largest - 1};
  Column column;
  for (const Count& value : values) column.Add(value);
  const Column_ read = ReadColumn(column.bytes(), column.size());
  REQUIRE(read.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i) CHECK(Same(read[i], values[i]));
  Column gap;
  gap.FillTo(3);
  gap.Add(5);
  gap.FillTo(2);
  CHECK(ReadColumn(gap.bytes(), gap.size()) == Column_{{}, {}, {}, 5});
}

TEST_CASE("page: random columns") {
  RandomRecording random(5);
  std::vector<Count> values(5000);
  Column column;
  for (Count& value : values) {
    if (random.Chance(0.9)) value = random.Number(54);
    column.Add(value);
  }
  const Column_ read = ReadColumn(column.bytes(), column.size());
  for (size_t i = 0; i < values.size(); ++i) REQUIRE(Same(read[i], values[i]));
}

TEST_CASE("page: a small one, as a person has read it") {
  const PageReading page = Training().Read();
  OrderedJson readable = page.json;
  readable.erase("report");
  const std::string text = Readable(page, readable).dump(1) + "\n";
  const std::filesystem::path path = RepositoryRoot() / "tests" / "golden" / "page.json";
  if (getenv("COWPROF_UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
  CHECK(ReadWhole(path) == text);
}

TEST_CASE("page: the report in it is that of `report --json`, and packing changes nothing") {
  const Made made = Training();
  const std::string data =
      absl::StrJoin(made.builder.Data(made.run.model, Judge(made.run), {.complete = true, .live = true}).parts(), "");
  CHECK(PageReading(data).json["report"].dump() == ReportJsonOf(made.run).dump());
  CHECK(PageReading(data).json["run"]["live"] == true);
  CHECK(Unpacked(Packed({data})) == data);
  CHECK_FALSE(PageReading(data).json.contains("comparisons"));
  const OrderedJson comparisons = {{{"sentence", "x"}}};
  const auto parts = made.builder.Data(made.run.model, Judge(made.run), {.comparisons = &comparisons});
  CHECK(PageReading(absl::StrJoin(parts.parts(), "")).json["comparisons"] == comparisons);
}

TEST_CASE("page: two recordings stand in two lines of the data element") {
  const std::string one = Packed({"a\nb"}), two = Packed({"c\nd"});
  const auto page = RenderPage({one, two});
  REQUIRE(page.ok());
  CHECK(absl::StrContains(*page, absl::StrCat(one, "\n", two)));
  CHECK_FALSE(absl::StrContains(*page, "__COWPROF_DATA__<"));
}

TEST_CASE("page: random recordings, each figure as the model had it at that sample") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    RandomRecording recording(seed);
    Made made;
    made.run.model.info = recording.Info();
    std::map<int, std::vector<std::pair<size_t, ProcessModel>>> expected;
    for (size_t at = 0; at < 60; ++at) {
      const Sample sample = recording.Next();
      made.Add(sample);
      for (const ProcessSample& row : sample.processes)
        expected[row.index].emplace_back(at, made.run.model.processes[row.index]);
    }
    const PageReading page = made.Read();
    REQUIRE(page.json["processes"].size() == made.run.model.processes.size());
    for (const auto& [index, states] : expected) {
      const OrderedJson& json = page.json["processes"][index];
      const size_t first = json["first"];
      REQUIRE(first == states.front().first);
      const Column_ private_kib = page.Column(json["private_kib"]), copies = page.Column(json["copies"]);
      for (const auto& [at, process] : states) {
        REQUIRE(at - first < copies.size());
        REQUIRE(Same(private_kib[at - first], Kib(process.private_bytes)));
        REQUIRE(Same(copies[at - first], process.counts.copies));
        for (const auto& [name, column] : json["causes"].items()) {
          for (int cause = 0; cause < kCauses; ++cause) {
            if (name != NameOf(static_cast<Cause>(cause))) continue;
            const Count meant = process.causes ? Count((*process.causes)[cause]) : std::nullopt;
            REQUIRE(Same(page.Column(column)[at - first], meant));
          }
        }
      }
    }
    for (const char* column : {"low_kib", "limit", "ceiling_kib"})
      CHECK(page.Column(page.json["forecasts"][column]).size() == 60);
    for (const OrderedJson& limit : page.json["limits"]) CHECK(page.Column(limit["used"]).size() == 60);
  }
}

TEST_CASE("page: the last checkpoint of the blame sums to what the report's tables are made of") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    RandomRecording recording(seed);
    Made made;
    for (int i = 0; i < 80; ++i) made.Add(recording.Next());
    const PageReading page = made.Read();
    const OrderedJson& blame = page.json["blame"];
    const std::vector<uint64_t> index = page.Numbers(blame["index"]), copy_site = page.Numbers(blame["place"]),
                                steps = page.Numbers(blame["steps"]), at = page.Numbers(blame["at"]);
    const Column_ copies = page.Column(blame["copies"]);
    std::map<int, uint64_t> by_copy_site;
    size_t next = 0;
    bool rises = true;
    for (size_t pair = 0; pair < index.size(); ++pair) {
      const size_t end = next + steps[pair];
      for (size_t i = next + 1; i < end; ++i)
        rises &= at[i] > at[i - 1] && (!copies[i] || !copies[i - 1] || *copies[i] >= *copies[i - 1]);
      if (copies[end - 1]) by_copy_site[copy_site[pair]] += static_cast<uint64_t>(*copies[end - 1]);
      next = end;
    }
    CHECK(next == copies.size());
    CHECK(rises);
    for (const CopySiteShare& share : BlameOf(made.run.model, {}).copy_sites)
      CHECK(by_copy_site[share.copy_site] == share.copies);
  }
}

TEST_CASE("page: a place has the line that the report's table has it under") {
  Made made;
  made.Add(
      {.events = {Process(0, -1), Process(1, 0)},
       .processes = {Row(1, 10, {10})},
       .new_frames = {{"/usr/lib/python3/dist-packages/torch/storage.py", "copy", 7}, {"/srv/data.py", "get", 41}},
       .new_copy_sites = {{Cause::kRefcount, "str", "", "", {0, 1}}, {Cause::kData, "", "libc.so.6", "memcpy", {}}},
       .copy_sites = {{1, 0, 8, 8, 8}, {1, 1, 2, 2, 2}}});
  const PageReading page = made.Read();
  const OrderedJson& places = page.json["places"];
  CHECK(places[0]["line"] == 1);
  CHECK(places[0]["via"] == "torch");
  CHECK(places[1]["line"].is_null());
  CHECK(page.json["report"]["by_line"][0]["line"] == 41);
  CHECK(page.json["report"]["by_line"][0]["via"] == "torch");
}

TEST_CASE("page: many checkpoints are merged two by two, and the last one stays") {
  Made made;
  made.Add({.events = {Process(0, -1), Process(1, 0)}, .processes = {Row(1, 0, {})}, .new_copy_sites = {{}, {}}});
  for (uint64_t i = 1; i <= 5000; ++i) {
    made.Add({.t = absl::Seconds(i),
              .processes = {Row(1, 3 * i, {3 * i})},
              .copy_sites = {{1, 0, i, 1, 1}, {1, 1, 2 * i, 1, 1}}});
  }
  const PageReading page = made.Read();
  const std::vector<uint64_t> times = page.Numbers(page.json["blame"]["times_ms"]),
                              copies = page.Numbers(page.json["blame"]["copies"]);
  CHECK(times.size() <= PageBlame::kMostCheckpoints);
  CHECK(times.size() > PageBlame::kMostCheckpoints / 2 - 2);
  CHECK(times.back() == 5'000'000);
  REQUIRE(copies.size() == 2 * times.size());
  for (size_t i = 0; i < times.size(); ++i) {
    REQUIRE(copies[i] == times[i] / 1000);
    REQUIRE(copies[times.size() + i] == 2 * times[i] / 1000);
  }
}

TEST_CASE("page: of processes that are not listed any more no places are kept") {
  Run run;
  run.model.most_ended = 20;
  PageBlame blame;
  const auto add = [&](const Sample& sample) {
    Append(sample, &run);
    blame.Add(sample, run.model);
  };
  add({.events = {Process(0, -1)}, .processes = {Row(0, 0, {})}, .new_copy_sites = {{}}});
  for (int index = 1; index < 500; ++index) {
    const absl::Duration t = absl::Seconds(index);
    add({.t = t,
         .events = {Process(index, 0), Exited(index, 0, t)},
         .processes = {Row(index, 7, {7})},
         .copy_sites = {{index, 0, 7, 1, 1}}});
    REQUIRE(blame.processes() <= run.model.processes.size());
  }
  ColumnFile file;
  OrderedJson page;
  blame.Write(run.model, &file, &page);
  CHECK(page["blame"]["times_ms"][2] == 499);                          // one for each sample with places
  CHECK(page["blame"]["index"][2] == run.model.processes.size() - 1);  // the target has none
}

TEST_CASE("page: with a thread beside it is the same") {
  RandomRecording random(17);
  Run run;
  run.model.info = random.Info();
  run.model.most_ended = 10;
  PageBuilder alone, beside(true);
  for (int i = 0; i < 1500; ++i) {
    const Sample sample = random.Next();
    Append(sample, &run);
    alone.Add(sample, {}, run);
    beside.Add(sample, {}, run);
  }
  beside.End();  // which the other is not told
  const Findings findings = Judge(run);
  const auto data = [&](PageBuilder* builder) {
    return absl::StrJoin(builder->LastData(run.model, findings, {.complete = true}).parts(), "");
  };
  const std::string expected = data(&alone);
  CHECK(data(&beside) == expected);
  const PageReading page(expected);
  const std::vector<uint64_t> checkpoints = page.Numbers(page.json["blame"]["times_ms"]);
  CHECK(checkpoints.size() > PageBlame::kMostCheckpoints / 2 - 2);  // they were thinned
  CHECK(page.json["processes"].size() > 10);
}

TEST_CASE("page: a thread that is beside it ends with it") {
  RandomRecording random(18);
  Run run;
  PageBuilder beside(true);
  for (int i = 0; i < 200; ++i) {
    const Sample sample = random.Next();
    Append(sample, &run);
    beside.Add(sample, {}, run);
  }
}

TEST_CASE("page: what fails on the thread beside it is thrown by who waits for it") {
  SideThread side;
  std::vector<int> done;
  const uint64_t first = side.Run([&] { done.push_back(1); });
  const uint64_t second = side.Run([&] { done.push_back(2); });
  side.WaitFor(second);
  side.WaitFor(first);
  CHECK(done == std::vector<int>{1, 2});
  CHECK_THROWS_AS(side.WaitFor(side.Run([] { throw std::bad_alloc(); })), std::bad_alloc);
}

TEST_CASE("page: a hang is a mark, and so is its end") {
  Made made;
  made.Add({.events = {Process(0, -1), Process(1, 0)}});
  const HangsSeen seen = {{{.pid = 4001, .tid = 4001, .what = "a threading.RLock"}}};
  made.Add({.t = absl::Seconds(1), .events = {{.t = absl::Seconds(1), .index = 1, .what = seen}}});
  made.Add({.t = absl::Seconds(2), .events = {{.t = absl::Seconds(2), .index = 1, .what = HangsSeen{}}}});
  const auto events = made.Read().json["events"];
  REQUIRE(events.size() == 4);
  CHECK(events[2]["kind"] == "hang");
  CHECK(events[2]["text"] == "worker 4001 can never go on: it waits for a threading.RLock");
  CHECK(events[3]["text"] == "worker 4001 went on after all");
}

TEST_CASE("page: of too many events those that say least are left out, and counted", "[long]") {
  Made made;
  made.Add({.events = {Process(0, -1)}});
  Sample sample = {.t = absl::Seconds(1)};
  constexpr int kProcesses = PageEvents::kMost + 500;
  for (int i = 1; i <= kProcesses; ++i) sample.events.push_back(Process(i, 0));
  sample.events.push_back(Exited(7, SIGSEGV, absl::Seconds(1)));
  made.Add(sample);
  const PageReading page = made.Read();
  CHECK(page.json["events"].size() == PageEvents::kMost);
  CHECK(page.json["events_dropped"] == kProcesses + 2 - PageEvents::kMost);
  CHECK(page.json["events"].dump().find("worker 4007 was killed by SIGSEGV") != std::string::npos);
}

TEST_CASE("page: an empty recording, one that ends at once, and a process without a sample") {
  Made empty;
  const PageReading nothing = empty.Read();
  CHECK(nothing.json["processes"].empty());
  CHECK(nothing.Column(nothing.json["times_ms"]).empty());
  CHECK(nothing.Column(nothing.json["forecasts"]["low_kib"]).empty());

  Made made;
  made.Add({.t = absl::Seconds(-5), .events = {Process(0, -1), Process(1, 0)}, .processes = {Row(0, 1, {1})}});
  const PageReading page = made.Read();
  CHECK(page.Numbers(page.json["times_ms"]) == std::vector<uint64_t>{0});
  CHECK(page.Column(page.json["processes"][1]["copies"]).empty());
  CHECK(page.json["processes"][1]["ended"].is_null());
}

TEST_CASE("page: figures that nobody would believe make no nonsense") {
  ProcessSample row = Row(1, UINT64_MAX, {UINT64_MAX, UINT64_MAX});
  row.proc.anon_pages = UINT64_MAX;
  Made made;
  made.Add({.t = absl::InfiniteDuration(),
            .events = {Process(0, -1), Process(1, 0), Exited(9, 1, absl::InfiniteDuration())},
            .processes = {row, row, {.index = -3}, {.index = 1 << 30}},
            .limits = {{LimitKind::kHost, "", UINT64_MAX, UINT64_MAX}},
            .new_copy_sites = {{}},
            .copy_sites = {{1, 0, UINT64_MAX, 1, UINT64_MAX}},
            .pages = {{1, Cause::kUnknown, UINT64_MAX, UINT64_MAX}},
            .new_regions = {{-1, {RegionKind::kOther, "\xff", UINT64_MAX, 0}}},
            .regions = {{1, 0, UINT64_MAX, 0, 0, 0, 0}}});
  const PageReading page = made.Read();
  CHECK_FALSE(page.Column(page.json["processes"][1]["copies"])[0]);
  CHECK_FALSE(page.Column(page.json["pages"]["first_page"])[0]);
  CHECK(page.json["processes"].size() == 2);
}

}  // namespace cowprof
