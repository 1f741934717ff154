#include "sink/export/export.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "builders.h"
#include "model/format.h"
#include "random_recording.h"
#include "sink/export/copies.h"
#include "sink/export/perfetto_trace.h"

namespace cowprof {
namespace {

using protozero::pbf_reader;

const std::string kHostile = "a;b\n\"c\",\xff\x1b[31m 12";

// A parent and two workers; worker 2 has copies without a site. Names are what a hostile program may choose.
Run HostileRun() {
  Run run;
  run.model.info = {.version = "0.1.0", .page_bytes = 4096, .command = kHostile};
  Sample sample = {.t = absl::Seconds(1),
                   .events = {Started(0, -1, kHostile), Started(1, 0, kHostile), Started(2, 0)},
                   .processes = {RowWithCopies(0, 0), RowWithCopies(1, 10), RowWithCopies(2, 7)}};
  sample.new_frames = {{kHostile, kHostile, 3}, {"/src/train.py", "main", 40}};
  sample.new_copy_sites = {{.cause = Cause::kRefcount, .type = kHostile, .symbol = kHostile, .frames = {0, 1}},
                           {.cause = Cause::kData, .module = kHostile}};
  sample.copy_sites = {{1, 0, 3, 3, 3}, {1, 1, 1, 1, 1}};
  sample.processes[2].causes = CauseCounts{};
  (*sample.processes[2].causes)[static_cast<int>(Cause::kGcHeader)] = 7;
  Append(sample, {}, &run);
  return run;
}

std::string Unzipped(const std::string& bytes) {
  z_stream stream = {};
  REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
  std::string out(1 << 22, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = bytes.size();
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = out.size();
  REQUIRE(inflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

struct ReadProfile {
  std::vector<std::string> strings;
  int64_t copies = 0, bytes = 0;
  std::map<std::string, int64_t> copies_by_label;  // "cause=refcount"
};

ReadProfile ReadPprof(const std::string& gzipped) {
  ReadProfile read;
  std::vector<std::pair<std::pair<int64_t, int64_t>, int64_t>> labels;
  const std::string bytes = Unzipped(gzipped);
  pbf_reader profile(bytes);
  while (profile.next()) {
    if (profile.tag() == 6) {
      read.strings.push_back(profile.get_string());
    } else if (profile.tag() == 2) {
      pbf_reader sample = profile.get_message();
      std::vector<int64_t> values;
      while (sample.next()) {
        if (sample.tag() == 2) {
          for (const int64_t value : sample.get_packed_int64()) values.push_back(value);
          read.copies += values.at(0);
          read.bytes += values.at(1);
        } else if (sample.tag() == 3) {
          pbf_reader label = sample.get_message();
          std::pair<int64_t, int64_t> key_value;
          while (label.next()) (label.tag() == 1 ? key_value.first : key_value.second) = label.get_int64();
          labels.emplace_back(key_value, values.at(0));
        } else {
          sample.skip();
        }
      }
    } else {
      profile.skip();
    }
  }
  for (const auto& [label, copies] : labels)
    read.copies_by_label[read.strings.at(label.first) + "=" + read.strings.at(label.second)] += copies;
  return read;
}

bool IsReadable(const std::string& text) { return Readable(text) == text; }

TEST_CASE("copies sum to what was counted, with and without copy sites") {
  const Run run = HostileRun();
  std::map<int, uint64_t> of_process;
  for (const ExportedCopies& row : CopiesOf(run.model)) of_process[row.process->index] += row.copies;
  CHECK(of_process == std::map<int, uint64_t>{{1, 10}, {2, 7}});
}

TEST_CASE("a profile has all copies, with labels and readable names") {
  const ReadProfile read = ReadPprof(PprofProfile(HostileRun().model));
  CHECK(read.strings.at(0).empty());
  CHECK(read.copies == 17);
  CHECK(read.bytes == 17 * 4096);
  CHECK(read.copies_by_label.at("cause=refcount") + read.copies_by_label.at("cause=data") == 10);
  CHECK(read.copies_by_label.at("cause=gc_header") == 7);
  CHECK(read.copies_by_label.at("type=" + Readable(kHostile)) == read.copies_by_label.at("cause=refcount"));
  CHECK(read.copies_by_label.at("process=worker (1001)") == 10);
  CHECK(read.copies_by_label.at("worker=1002") == 7);
  for (const std::string& text : read.strings) CHECK(IsReadable(text));
}

TEST_CASE("a DataLoader's worker is named by its number and its rank") {
  Run run;
  Sample sample = {.events = {Started(0, -1),
                              {.index = 0, .what = RankFound{{.source = RankSource::kTorch, .rank = 5}}},
                              Started(1, 0)},
                   .processes = {RowWithCopies(0, 2), RowWithCopies(1, 10)}};
  sample.processes[1].loader = {.worker_id = 3, .num_workers = 4};
  Append(sample, {}, &run);
  const ReadProfile read = ReadPprof(PprofProfile(run.model));
  CHECK(read.copies_by_label.at("worker=3") == 10);
  CHECK(read.copies_by_label.at("rank=5") == 12);
  CHECK(read.copies_by_label.at("process=worker 3 (1001)") == 10);
  CsvTable table;
  table.Add(sample, run.model);
  CHECK(absl::StrContains(table.text(), ",1001,0,worker,3,5,10,"));
}

TEST_CASE("absurd counts stay positive") {
  Run run;
  Append({.events = {Started(0, -1)}, .processes = {RowWithCopies(0, UINT64_MAX)}}, {}, &run);
  const ReadProfile read = ReadPprof(PprofProfile(run.model));
  CHECK(read.copies == INT64_MAX);
  CHECK(read.bytes == INT64_MAX);
}

TEST_CASE("a line of folded stacks is frames and a number, whatever the names") {
  const std::string text = FoldedStacks(HostileRun().model);
  int64_t bytes = 0;
  std::map<size_t, int> lines_of_depth;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    CHECK(IsReadable(std::string(line)));
    const size_t blank = line.rfind(' ');
    bytes += std::stoll(std::string(line.substr(blank + 1)));
    const std::vector<std::string> frames = absl::StrSplit(line.substr(0, blank), ';');
    CHECK(absl::StartsWith(frames[0], "worker (100"));
    ++lines_of_depth[frames.size()];
  }
  CHECK(bytes == 17 * 4096);
  CHECK(lines_of_depth == std::map<size_t, int>{{3, 2}, {4, 1}});
}

TEST_CASE("speedscope has all processes first, then each") {
  const auto json = nlohmann::json::parse(SpeedscopeJson(HostileRun().model, kHostile), nullptr, false);
  REQUIRE(json.is_object());
  REQUIRE(json["profiles"].size() == 3);
  std::vector<int64_t> sums;
  for (const auto& profile : json["profiles"]) {
    REQUIRE(profile["samples"].size() == profile["weights"].size());
    int64_t sum = 0;
    for (const auto& weight : profile["weights"]) sum += weight.get<int64_t>();
    CHECK(profile["endValue"] == sum);
    for (const auto& stack : profile["samples"])
      for (const auto& frame : stack) CHECK(frame < json["shared"]["frames"].size());
    sums.push_back(sum);
  }
  CHECK(sums == std::vector<int64_t>{17 * 4096, 10 * 4096, 7 * 4096});
  CHECK(json["profiles"][1]["name"] == "worker (1001)");
}

TEST_CASE("the table has a row for each process and sample, and empty cells for what is not known") {
  const Run run = HostileRun();
  CsvTable table;
  table.Add({.t = absl::Seconds(1), .processes = {RowWithCopies(1, 10), RowWithCopies(2, 7)}}, run.model);
  const std::vector<std::string> lines = absl::StrSplit(table.text(), '\n', absl::SkipEmpty());
  REQUIRE(lines.size() == 3);
  CHECK(absl::StartsWith(lines[1], "1.000000,1,1001,0,worker,1001,,10,40960,"));
  CHECK(absl::EndsWith(lines[1], ",,,,,,,,,,,"));
  CHECK(absl::StrContains(lines[2], ",7,28672,"));
  for (const std::string& line : lines)
    CHECK(std::count(line.begin(), line.end(), ',') == std::count(lines[0].begin(), lines[0].end(), ','));
}

TEST_CASE("the table has a row where a figure changed, and one at the end of a process and of the recording") {
  Run run;
  CsvTable table;
  const auto add = [&](const Sample& sample) {
    Append(sample, {}, &run);
    table.Add(sample, run.model);
  };
  add({.t = absl::Seconds(1),
       .events = {Started(0, -1), Started(1, 0), Started(2, 0)},
       .processes = {RowWithCopies(0, 0), RowWithCopies(1, 10), RowWithCopies(2, 7)}});
  for (int t = 2; t < 6; ++t) {
    add({.t = absl::Seconds(t),
         .processes = {RowWithCopies(0, 0), RowWithCopies(1, t < 4 ? 10 : 20), RowWithCopies(2, 7)}});
  }
  add({.t = absl::Seconds(6),
       .events = {Exited(2, 0, absl::Seconds(6))},
       .processes = {RowWithCopies(0, 0), RowWithCopies(1, 20), RowWithCopies(2, 7)}});
  add({.t = absl::Seconds(7), .processes = {RowWithCopies(0, 0), RowWithCopies(1, 20)}});
  std::map<std::string, std::vector<std::string>> rows;  // index -> seconds and copies
  for (const absl::string_view line : absl::StrSplit(table.text(), '\n', absl::SkipEmpty())) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    rows[cells[1]].push_back(cells[0] + " " + cells[7]);
  }
  CHECK(rows["0"] == std::vector<std::string>{"1.000000 0", "7.000000 0"});
  CHECK(rows["1"] == std::vector<std::string>{"1.000000 10", "4.000000 20", "7.000000 20"});
  CHECK(rows["2"] == std::vector<std::string>{"1.000000 7", "6.000000 7"});
}

struct ReadTrace {
  std::map<uint64_t, std::string> names;            // of tracks
  std::map<uint64_t, std::vector<int64_t>> values;  // of counters, in order
  std::map<uint64_t, uint64_t> parents;
  std::vector<std::pair<uint64_t, std::string>> instants;  // track and name
  std::vector<uint64_t> times;
};

ReadTrace ReadPerfetto(const std::string& bytes) {
  ReadTrace read;
  pbf_reader trace(bytes);
  while (trace.next(1)) {
    pbf_reader packet = trace.get_message();
    while (packet.next()) {
      if (packet.tag() == 8) {
        read.times.push_back(packet.get_uint64());
      } else if (packet.tag() == 60) {
        pbf_reader track = packet.get_message();
        uint64_t uuid = 0;
        while (track.next()) {
          if (track.tag() == 1) {
            uuid = track.get_uint64();
            CHECK(!read.names.contains(uuid));
          } else if (track.tag() == 2) {
            read.names[uuid] = track.get_string();
          } else if (track.tag() == 5) {
            read.parents[uuid] = track.get_uint64();
          } else {
            track.skip();
          }
        }
      } else if (packet.tag() == 11) {
        pbf_reader event = packet.get_message();
        uint64_t track = 0;
        while (event.next()) {
          if (event.tag() == 11) {
            track = event.get_uint64();
            CHECK(read.names.contains(track));
          } else if (event.tag() == 30) {
            read.values[track].push_back(event.get_int64());
          } else if (event.tag() == 23) {
            read.instants.emplace_back(track, event.get_string());
          } else {
            event.skip();
          }
        }
      } else {
        packet.skip();
      }
    }
  }
  return read;
}

TEST_CASE("a trace has the tracks of each process, and marks") {
  Run run;
  run.model.info = {.started = absl::FromUnixSeconds(1'700'000'000), .page_bytes = 4096};
  PerfettoTrace trace;
  const auto add = [&](const Sample& sample, const std::vector<Alert>& raised) {
    Append(sample, raised, &run);
    trace.Add(sample, raised, run.model);
  };
  add({.t = absl::Seconds(1),
       .events = {Started(0, -1, kHostile), Started(1, 0)},
       .processes = {RowWithCopies(0, 1), RowWithCopies(1, 10)},
       .limits = {{LimitKind::kHost, kHostile, 1000, 10}}},
      {});
  add({.t = absl::Seconds(2), .processes = {RowWithCopies(1, 10)}, .limits = {{LimitKind::kHost, kHostile, 1000, 10}}},
      {});
  add({.t = absl::Seconds(3),
       .events = {Exited(1, 9, absl::Milliseconds(2500))},
       .processes = {RowWithCopies(1, 12)},
       .limits = {{LimitKind::kHost, kHostile, 1000, 990}}},
      {{.t = absl::Seconds(3), .kind = LimitKind::kHost, .name = kHostile, .text = kHostile}});
  const ReadTrace read = ReadPerfetto(trace.Finish(run.model, Judge(run, Detail::kScreen)));
  std::map<std::string, std::vector<int64_t>> values;
  for (const auto& [track, name] : read.names) {
    CHECK(IsReadable(name));
    const auto parent = read.parents.find(track);
    if (read.values.contains(track))
      values[(parent == read.parents.end() ? "" : read.names.at(parent->second) + ": ") + name] = read.values.at(track);
  }
  CHECK(values.at("parent (1000): copied") == std::vector<int64_t>{4096});
  CHECK(values.at("worker (1001): copied") == std::vector<int64_t>{40960, 49152});
  CHECK(values.at("the host's memory: used") == std::vector<int64_t>{10, 990});
  CHECK(values.at("the host's memory: limit") == std::vector<int64_t>{1000});
  std::map<std::string, std::string> instants;  // text -> track
  for (const auto& [track, text] : read.instants) instants[text] = read.names.at(track);
  CHECK(instants.at("worker 1001 was forked by parent 1000") == "worker (1001)");
  CHECK(instants.at(Printable(kHostile)) == "cowprof: alerts and notes");
  CHECK(std::count_if(instants.begin(), instants.end(), [](const auto& instant) {
          return absl::StrContains(instant.first, "SIGKILL") && instant.second == "worker (1001)";
        }) == 1);
  for (const uint64_t t : read.times) CHECK((t >= 1'700'000'000'000'000'000 && t <= 1'700'000'003'000'000'000));
}

TEST_CASE("processes that are no longer listed are exported, too") {
  Run run;
  run.model.most_ended = 4;
  PerfettoTrace trace;
  const auto add = [&](const Sample& sample) {
    Append(sample, {}, &run);
    trace.Add(sample, {}, run.model);
  };
  add({.events = {Started(0, -1)}, .processes = {RowWithCopies(0, 1)}});
  for (int i = 1; i <= 40; ++i) {
    add({.t = absl::Seconds(2 * i), .events = {Started(i, 0)}, .processes = {RowWithCopies(i, 10)}});
    add({.t = absl::Seconds(2 * i + 1),
         .events = {Exited(i, 0, absl::Seconds(2 * i + 1))},
         .processes = {RowWithCopies(i, 10)}});
  }
  REQUIRE(run.model.processes.size() < 20);
  CHECK(ReadPprof(PprofProfile(run.model)).copies == 401);
  const ReadTrace read = ReadPerfetto(trace.Finish(run.model, Judge(run, Detail::kScreen)));
  int64_t copied = 0;
  for (const auto& [track, name] : read.names) copied += name == "copied" ? read.values.at(track).back() : 0;
  CHECK(copied == 401 * 4096);
  for (const auto& [track, text] : read.instants) CHECK(absl::StrContains(read.names.at(track), "("));
}

TEST_CASE("random recordings are exported whole in every format") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    RandomRecording recording(seed);
    Run run;
    run.model.info = recording.Info();
    CsvTable table;
    PerfettoTrace trace;
    for (int i = 0; i < 30; ++i) {
      const Sample sample = recording.Next();
      Append(sample, {}, &run);
      table.Add(sample, run.model);
      trace.Add(sample, {}, run.model);
    }
    const ReadTrace read = ReadPerfetto(trace.Finish(run.model, Judge(run, Detail::kScreen)));
    CHECK(!read.names.empty());
    std::map<std::string, std::string> last;  // index -> copies
    for (const absl::string_view line : absl::StrSplit(table.text(), '\n', absl::SkipEmpty())) {
      const std::vector<std::string> cells = absl::StrSplit(line, ',');
      last[cells.at(1)] = cells.at(7);
    }
    for (const ProcessModel& process : run.model.processes) {
      const auto found = last.find(std::to_string(process.index));
      const Count& copies = process.counts.copies;
      if (found != last.end()) CHECK(found->second == (copies ? std::to_string(*copies) : ""));
    }
    ReadPprof(PprofProfile(run.model));
    CHECK(!FoldedStacks(run.model).empty());
    CHECK(nlohmann::json::parse(SpeedscopeJson(run.model, "a"), nullptr, false).is_object());
  }
}

}  // namespace
}  // namespace cowprof
