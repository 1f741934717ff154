// A recording with more rows than the page takes: of each two samples the later one stays, for all series alike, so
// that every value is still the one of its time.
#include "sink/page/page_series.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "builders.h"
#include "judged.h"
#include "page_reading.h"
#include "random_recording.h"

namespace cowprof {
namespace {

struct Shown {
  explicit Shown(uint64_t most_rows, SideThread* side = nullptr) : series(most_rows, side) {}
  PageSeries series;
  Run run;
  OrderedJson json;
  std::string bytes;

  void Add(const Sample& sample) {
    Append(sample, &run);
    series.Add(sample, run);
  }
  void Write() { Write(ForecastOf(run)); }
  void Write(const Forecast& forecast) {
    ColumnFile file;
    json.clear();
    series.Write(run.model, forecast, &file, &json);
    bytes = absl::StrJoin(file.parts(), "");
  }
  std::vector<std::optional<double>> Read(const OrderedJson& column) const {
    const size_t offset = column[0], size = column[1], count = column[2];
    return ReadColumn(absl::string_view(bytes).substr(offset, size), count);
  }
};

// Value by time of one column, which begins with sample `first`.
std::map<double, std::optional<double>> ByTime(const Shown& shown, const OrderedJson& column, size_t first) {
  const auto times = shown.Read(shown.json["times_ms"]), values = shown.Read(column);
  REQUIRE(first + values.size() <= times.size());
  std::map<double, std::optional<double>> by_time;
  for (size_t i = 0; i < values.size(); ++i) by_time[*times[first + i]] = values[i];
  return by_time;
}

}  // namespace

TEST_CASE("page: a column that is halved keeps the later of each two values") {
  const std::vector<Count> values = {5, {}, 7, 8, 3, 3, 1};
  const auto halved = [&](size_t first) {
    Column column;
    for (const Count& value : values) column.Add(value);
    column.Halve(first);
    return ReadColumn(column.bytes(), column.size());
  };
  CHECK(halved(0) == std::vector<std::optional<double>>{{}, 8, 3, 1});
  CHECK(halved(3) == std::vector<std::optional<double>>{5, 7, 3, 1});
  Column empty;
  empty.Halve(0);
  CHECK(empty.size() == 0);
}

TEST_CASE("page: more rows than it takes are told at fewer times, each as it was") {
  RandomRecording random(11);
  const uint64_t most = 200;
  Shown all(UINT64_MAX), few(most);
  for (int i = 0; i < 300; ++i) {
    const Sample sample = random.Next();
    all.Add(sample);
    few.Add(sample);
  }
  all.Write();
  few.Write();
  size_t rows = 0, compared = 0;
  for (const OrderedJson& process : few.json["processes"]) {
    const OrderedJson& whole = all.json["processes"][process["index"].get<size_t>()];
    for (const char* name : {"private_kib", "copies"}) {
      const auto known = ByTime(all, whole[name], whole["first"]), kept = ByTime(few, process[name], process["first"]);
      if (kept.empty()) continue;
      for (auto value = kept.begin(); std::next(value) != kept.end(); ++value, ++compared)
        CHECK(known.at(value->first) == value->second);
      rows += kept.size();
    }
  }
  CHECK(rows / 2 <= most + 40);  // of two columns; an ended process has a row left in any case
  CHECK(compared > 0);
  CHECK(few.json["totals"]["peak_private_kib"] == all.json["totals"]["peak_private_kib"]);
  CHECK(few.json["totals"]["peak_private_kib"] > 0);
  const auto totals = ByTime(all, all.json["totals"]["copies"], 0);
  for (const auto& [t, copies] : ByTime(few, few.json["totals"]["copies"], 0)) CHECK(totals.at(t) == copies);
  CHECK(few.Read(few.json["forecasts"]["low_kib"]).size() == few.Read(few.json["times_ms"]).size());
  for (const OrderedJson& limit : few.json["limits"])
    CHECK(few.Read(limit["used"]).size() <= few.Read(few.json["times_ms"]).size());
}

TEST_CASE("page: rows written on another thread are thinned alike") {
  RandomRecording random(11);
  SideThread side;
  Shown alone(2500), beside(2500, &side);
  for (int i = 0; i < 3000; ++i) {
    const Sample sample = random.Next();
    alone.Add(sample);
    beside.Add(sample);
  }
  alone.Write();
  beside.series.Settle();
  beside.Write();
  CHECK(alone.Read(alone.json["times_ms"]).size() < 2000);
  CHECK(beside.json == alone.json);
  CHECK(beside.bytes == alone.bytes);
}

TEST_CASE("page: a forecast that holds for several samples says when it was made") {
  Shown shown(UINT64_MAX);
  for (int i = 0; i < 300; ++i) {
    Sample sample = {.t = absl::Seconds(i), .processes = {RowWithCopies(0, 5 * i)}};
    if (i == 0) sample.events = {Started(0, -1)};
    shown.Add(sample);
  }
  shown.Write();
  const auto said = shown.Read(shown.json["forecasts"]["said_ms"]);
  REQUIRE(said.size() == 300);
  CHECK(said[127] == 127'000);
  CHECK(said[128] == 128'000);
  CHECK(said[129] == 128'000);
  CHECK(said[130] == 130'000);
  CHECK(said[299] == 299'000);  // what is said now
}

TEST_CASE("page: a plateau is shown only where the forecast's sentence tells one") {
  Shown shown(UINT64_MAX);
  for (int i = 0; i < 20; ++i) {
    Sample sample = {.t = absl::Seconds(i), .processes = {RowWithCopies(0, 0)}};
    if (i == 0) sample.events = {Started(0, -1)};
    shown.Add(sample);
  }
  const auto last_of = [&](const char* name) { return shown.Read(shown.json["forecasts"][name]).back(); };
  shown.Write();
  for (const auto& best : shown.Read(shown.json["forecasts"]["best_kib"])) CHECK(!best);  // no worker lives

  const Forecast bounded = {.shape = Shape::kBounded,
                            .living_workers = 1,
                            .workers_known = true,
                            .plateau_bytes = Estimate{1 << 20, 2 << 20, 3 << 20},
                            .plateau_eta_seconds = Estimate{5, 6, 7}};
  const auto tells = [&](const auto& change) {
    Forecast forecast = bounded;
    change(forecast);
    shown.Write(forecast);
    CHECK(last_of("best_kib").has_value() == last_of("eta_s").has_value());
    return last_of("best_kib") == 2048;
  };
  CHECK(tells([](Forecast&) {}));
  CHECK(tells([](Forecast& forecast) { forecast.shape = Shape::kFlat; }));
  CHECK(!tells([](Forecast& forecast) { forecast.shape = Shape::kUnbounded; }));
  CHECK(!tells([](Forecast& forecast) { forecast.shape.reset(); }));
  CHECK(!tells([](Forecast& forecast) { forecast.ended = true; }));
  CHECK(!tells([](Forecast& forecast) { forecast.grows = true; }));
  CHECK(!tells([](Forecast& forecast) { forecast.living_workers = 0; }));
  CHECK(!tells([](Forecast& forecast) { forecast.workers_known = false; }));
}

// A process that is there at the attach has a rollup before its first sweep; what it shares is not known until then.
TEST_CASE("page: what is not known yet is not 0 in the sums") {
  Shown shown(UINT64_MAX);
  ProcessSample parent = {.index = 0};
  parent.proc.anon_pages = 1000;
  parent.rollup = RollupFigures{.private_bytes = 3 << 20};
  shown.Add({.events = {Started(0, -1)}, .processes = {parent}});
  ProcessSample worker = {.index = 1};
  worker.proc.anon_pages = 1000;
  Event found = Started(1, 0);
  std::get<ProcessStarted>(found.what).origin = Origin::kFoundAtAttach;
  shown.Add({.t = absl::Seconds(1), .events = {found}, .processes = {parent, worker}});
  worker.sweep = SweepFigures{.private_pages = 100, .shared_pages = 900};
  shown.Add({.t = absl::Seconds(2), .processes = {parent, worker}});
  shown.Write();
  const auto known = [&](const char* name) {
    std::vector<bool> is_known;
    for (const std::optional<double>& value : shown.Read(shown.json["totals"][name]))
      is_known.push_back(value.has_value());
    return is_known;
  };
  CHECK(shown.Read(shown.json["totals"]["private_kib"])[0] == 3072);
  CHECK(known("still_shared_kib") == std::vector<bool>{false, false, true});
  CHECK(known("workers_private_kib") == std::vector<bool>{true, false, true});
  CHECK(shown.Read(shown.json["totals"]["workers_private_kib"])[0] == 0);  // there is none
}

TEST_CASE("page: a process that was there at the attach is told from one that began later, or that cowprof started") {
  for (const bool started_target : {false, true}) {
    Shown shown(UINT64_MAX);
    shown.run.model.info.started_target = started_target;
    Event found = Started(1, 0);
    std::get<ProcessStarted>(found.what).origin = Origin::kFoundAtAttach;
    shown.Add({.events = {Started(0, -1), found, Started(2, 0)},
               .processes = {RowWithCopies(0, 1), RowWithCopies(1, 1), RowWithCopies(2, 1)}});
    shown.Write();
    CHECK(shown.json["processes"][0]["was_there"] == !started_target);
    CHECK(shown.json["processes"][1]["was_there"] == true);
    CHECK(shown.json["processes"][2]["was_there"] == false);
  }
}

// The report says when it was read; a line over time would stay where it was.
TEST_CASE("page: PSS is known only in the sample in which it was read, and its sum where all were") {
  Shown shown(UINT64_MAX);
  const auto add = [&](int second, Count parent_pss, Count worker_pss) {
    Sample sample = {.t = absl::Seconds(second), .processes = {RowWithCopies(0, 1), RowWithCopies(1, 2)}};
    if (second == 0) sample.events = {Started(0, -1), Started(1, 0)};
    if (parent_pss) sample.processes[0].rollup = RollupFigures{.t = sample.t, .pss_bytes = *parent_pss};
    if (worker_pss) sample.processes[1].rollup = RollupFigures{.t = sample.t, .pss_bytes = *worker_pss};
    shown.Add(sample);
  };
  add(0, 3 << 20, {});
  add(1, {}, {});
  add(2, 5 << 20, 2 << 20);
  add(3, {}, 2 << 20);
  shown.Write();
  using Values = std::vector<std::optional<double>>;
  CHECK(shown.Read(shown.json["processes"][0]["pss_kib"]) == Values{3072, {}, 5120, {}});
  CHECK(shown.Read(shown.json["processes"][1]["pss_kib"]) == Values{{}, {}, 2048, 2048});
  CHECK(shown.Read(shown.json["totals"]["pss_kib"]) == Values{{}, {}, 7168, {}});
}

TEST_CASE("page: of processes that are not listed any more nothing is kept, and the others are told as ever") {
  constexpr size_t kMost = 50;
  Shown all(UINT64_MAX), few(UINT64_MAX);
  few.run.model.most_ended = kMost;
  const auto add = [&](const Sample& sample) {
    all.Add(sample);
    few.Add(sample);
    REQUIRE(few.series.processes() <= few.run.model.processes.size());
  };
  add({.events = {Started(0, -1)}, .processes = {RowWithCopies(0, 1)}});
  for (int index = 1; index < 500; ++index) {
    add({.t = absl::Milliseconds(10 * index),
         .events = {Started(index, 0)},
         .processes = {RowWithCopies(0, 3 * index), RowWithCopies(index, 5 + index * 37 % 100)}});
    // Every tenth lives on, with a row now and then.
    if (index % 10 == 0) continue;
    add({.t = absl::Milliseconds(10 * index + 5),
         .events = {Exited(index, 0, absl::Milliseconds(10 * index + 5))},
         .processes = {RowWithCopies(index / 20 * 10, index), RowWithCopies(index, 200)}});
  }
  all.Write();
  few.Write();
  CHECK(all.series.processes() == 500);
  CHECK(few.series.processes() < 200);
  REQUIRE(few.json["processes"].size() < 200);
  for (const OrderedJson& process : few.json["processes"]) {
    const OrderedJson& whole = all.json["processes"][process["index"].get<size_t>()];
    CHECK(process["first"] == whole["first"]);
    for (const char* name : {"private_kib", "copies"}) CHECK(few.Read(process[name]) == all.Read(whole[name]));
  }
}

}  // namespace cowprof
