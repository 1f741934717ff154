// The timeline on disk: valid against its schema after every append, readable when truncated anywhere, and complete
// again after the disk was full. json_timeline_test.cc tests the records.
#include "timeline/timeline_file.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "builders.h"
#include "fixture_tree.h"
#include "json_schema.h"
#include "judged.h"
#include "random_recording.h"
#include "skip.h"

namespace cowprof {
namespace {

using Json = nlohmann::json;

struct Recorded {
  std::string bytes;
  std::vector<Sample> samples;
};

Recorded Record(const std::string& path, unsigned seed, int samples) {
  RandomRecording recording(seed);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  Recorded recorded;
  for (int i = 0; i < samples; ++i) {
    recorded.samples.push_back(recording.Next());
    REQUIRE((*file)->Write(recorded.samples.back(), {}).ok());
  }
  REQUIRE((*file)->Finish(recorded.samples.back().t, "target ended").ok());
  recorded.bytes = ReadWhole(path);
  return recorded;
}

struct Replayed {
  absl::StatusOr<TimelineContents> contents;
  std::vector<Sample> samples;
};
Replayed Replay(const std::string& path) {
  Replayed replayed;
  replayed.contents = ReadTimeline(
      path,
      {.on_info = [](const RunInfo&) {},
       .on_sample = [&](const Sample& sample, const std::vector<Alert>&) { replayed.samples.push_back(sample); }});
  return replayed;
}

std::vector<std::string> SchemaErrors(const std::string& path) {
  static const JsonSchema schema("timeline");
  const Json json = Json::parse(ReadWhole(path), nullptr, false);
  return json.is_discarded() ? std::vector<std::string>{"no JSON"} : schema.Errors(json);
}

// Limits every file of this process to `bytes`, like a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) {
    old_handler_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { Lift(); }
  void Lift() {
    setrlimit(RLIMIT_FSIZE, &old_);
    signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_;
  sighandler_t old_handler_;
};

// A tick in which 2,000 children come and go.
Sample WithShortLives(int tick) {
  Sample sample = {.t = absl::Seconds(1 + tick)};
  if (tick == 0) sample.events.push_back(Started(0, -1));
  sample.processes.push_back(RowWithCopies(0, tick));
  for (int index = 1 + tick * 2000; index < 1 + (tick + 1) * 2000; ++index) {
    sample.events.push_back(Started(index, 0));
    sample.events.push_back(Exited(index));
    sample.processes.push_back(RowWithCopies(index, 5));
  }
  return sample;
}

// Checks that the replay of a file knows everything that the live recording knew.
void CheckSameEnd(const RunModel& live, const std::string& path) {
  Run run;
  const auto contents = ReadRun(path, &run);
  REQUIRE(contents.ok());
  const RunModel& replayed = run.model;
  CHECK(contents->complete);
  CHECK(replayed.t == live.t);
  REQUIRE(replayed.processes.size() == live.processes.size());
  for (size_t i = 0; i < live.processes.size(); ++i) {
    INFO("process " << i);
    CHECK(replayed.processes[i].id == live.processes[i].id);
    CHECK(replayed.processes[i].counts == live.processes[i].counts);
    CHECK(replayed.processes[i].ended == live.processes[i].ended);
    CHECK(replayed.processes[i].comm == live.processes[i].comm);
    CHECK(replayed.processes[i].causes == live.processes[i].causes);
    CHECK(replayed.processes[i].copy_sites == live.processes[i].copy_sites);
    CHECK(replayed.processes[i].python == live.processes[i].python);
  }
  CHECK(replayed.frames == live.frames);
  CHECK(replayed.copy_sites == live.copy_sites);
  CHECK(replayed.cause_evidence == live.cause_evidence);
}

}  // namespace

TEST_CASE("a timeline is valid after every append and returns its samples") {
  const unsigned seed = GENERATE(range(1u, 5u));
  INFO("seed " << seed);
  FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  RandomRecording recording(seed);
  const RunInfo info = recording.Info();
  auto file = TimelineFile::Create(path, info);
  REQUIRE(file.ok());
  CHECK((*file)->path() == path);
  CHECK(SchemaErrors(path) == std::vector<std::string>{});
  std::vector<Sample> samples;
  for (int i = 0; i < 25; ++i) {
    samples.push_back(recording.Next());
    REQUIRE((*file)->Write(samples.back(), {}).ok());
    REQUIRE(SchemaErrors(path) == std::vector<std::string>{});
    const Replayed replayed = Replay(path);
    REQUIRE(replayed.contents.ok());
    CHECK_FALSE(replayed.contents->complete);
    REQUIRE(replayed.samples == samples);
  }
  REQUIRE((*file)->Finish(samples.back().t, "interrupted").ok());
  CHECK(SchemaErrors(path) == std::vector<std::string>{});
  const Replayed replayed = Replay(path);
  CHECK(replayed.contents->complete);
  CHECK(replayed.contents->info == info);
  CHECK(replayed.samples == samples);
  CHECK((*file)->records_dropped() == 0);
}

TEST_CASE("a timeline truncated at any byte returns a prefix of its samples", "[long]") {
  FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  const Recorded recorded = Record(path, 7, 5);
  const size_t header = recorded.bytes.find('\n');
  // The length of the end record, without the closing bytes after it.
  const size_t end = recorded.bytes.rfind("\n]}");
  const std::string cut = tree.root() + "/cut.json";
  // Write once, then truncate: ext4 waits for the disk when a file with contents is replaced, so rewriting it for each
  // cut would take milliseconds each time.
  tree.Write("/cut.json", recorded.bytes);
  size_t seen = recorded.samples.size();
  for (size_t size = recorded.bytes.size(); size-- > 0;) {
    std::filesystem::resize_file(cut, size);
    const Replayed replayed = Replay(cut);
    INFO("cut at " << size);
    if (size < header) {
      const bool has_schema = absl::StrContains(recorded.bytes.substr(0, size), "cowprof.timeline");
      REQUIRE(replayed.contents.status().code() ==
              (has_schema ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kInvalidArgument));
      REQUIRE(absl::StrContains(replayed.contents.status().message(), cut));
      REQUIRE_FALSE(absl::StrContains(replayed.contents.status().message(), "\n"));
      continue;
    }
    REQUIRE(replayed.contents.ok());
    REQUIRE(replayed.contents->complete == (size >= end));
    if (size >= end) REQUIRE(replayed.samples.size() == recorded.samples.size());
    REQUIRE(replayed.samples.size() <= seen);
    REQUIRE(replayed.samples.size() + 1 >= seen);
    seen = replayed.samples.size();
    REQUIRE(std::equal(replayed.samples.begin(), replayed.samples.end(), recorded.samples.begin()));
  }
  CHECK(seen == 0);
}

TEST_CASE("a timeline with any byte changed is read or refused", "[long]") {
  FixtureTree tree;
  const Recorded recorded = Record(tree.root() + "/t.json", 8, 4);
  RandomRecording dice(9);
  // Change bytes in place and back, for the same reason.
  std::fstream file(tree.root() + "/t.json", std::ios::in | std::ios::out | std::ios::binary);
  for (int i = 0; i < 1500; ++i) {
    std::vector<int> copy_sites(dice.Int(1, 3));
    for (int& copy_site : copy_sites) {
      copy_site = dice.Int(0, recorded.bytes.size() - 1);
      file.seekp(copy_site).put(static_cast<char>(dice.Int(0, 255)));
    }
    REQUIRE(file.flush().good());
    Run run;
    const auto contents = ReadRun(tree.root() + "/t.json", &run);
    if (!contents.ok() && !absl::IsUnimplemented(contents.status()) && !absl::IsFailedPrecondition(contents.status()))
      CHECK(absl::IsInvalidArgument(contents.status()));
    for (const int copy_site : copy_sites) file.seekp(copy_site).put(recorded.bytes[copy_site]);
  }
  REQUIRE(file.flush().good());
  CHECK(ReadWhole(tree.root() + "/t.json") == recorded.bytes);
}

TEST_CASE("a timeline that another program reformatted reads the same") {
  const int indent = GENERATE(-1, 0, 2);
  FixtureTree tree;
  const Recorded recorded = Record(tree.root() + "/t.json", 12, 8);
  tree.Write("/relaid.json", nlohmann::ordered_json::parse(recorded.bytes).dump(indent) + "\n");
  const Replayed replayed = Replay(tree.root() + "/relaid.json");
  REQUIRE(replayed.contents.ok());
  CHECK(replayed.contents->complete);
  CHECK(replayed.samples == recorded.samples);
}

TEST_CASE("other JSON, hostile or not, is refused or read as far as possible") {
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  FixtureTree tree;
  for (const std::string& text :
       {std::string("[]\n"), std::string("7"), std::string("null\n"), std::string("{}\n"), std::string("\n"),
        std::string("{\"records\":7}\n"), std::string("{\"schema\":{},\"records\":{}}\n"),
        std::string("{\"schema\":\"cowprof.report/1\",\"target\":{}}\n"), std::string(1000, '\0'), deep,
        "{\"schema\":" + deep + ",\"records\":[]}\n"}) {
    tree.Write("/other.json", text);
    const Replayed replayed = Replay(tree.root() + "/other.json");
    INFO(text.substr(0, 60));
    CHECK(replayed.contents.status().code() == absl::StatusCode::kInvalidArgument);
  }
  for (const std::string& text :
       {"{\"schema\":\"cowprof.timeline/1\",\"header\":" + deep + ",\"records\":[]}\n",
        "{\"schema\":\"cowprof.timeline/1\",\"records\":" + deep + "}\n",
        std::string("{\"schema\":\"cowprof.timeline/1\",\"records\":[7,null,\"]}\",[],{}]}\n"),
        "{\"schema\":\"cowprof.timeline/1\",\"header\":{},\"records\":[\n{\"type\":\"sample\",\"processes\":" + deep +
            "}\n]}\n"}) {
    tree.Write("/other.json", text);
    INFO(text.substr(0, 60));
    CHECK(Replay(tree.root() + "/other.json").samples.size() <= 1);
  }
}

TEST_CASE("a file without an end is refused, and so is a recording that was reformatted and is too large") {
  CHECK_THAT(std::string(Replay("/dev/zero").contents.status().message()),
             Catch::Contains("/dev/zero: not a cowprof recording"));
  FixtureTree tree;
  tree.Write("/large.json", "{\n\"schema\":\"cowprof.timeline/1\",\"records\":[\n");
  std::filesystem::resize_file(tree.root() + "/large.json", 65 << 20);
  const absl::Status large = Replay(tree.root() + "/large.json").contents.status();
  CHECK(large.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(large.message()), Catch::Contains("more than 64 MiB"));
}

TEST_CASE("a record that is too long is named, not taken for the end of the file") {
  FixtureTree tree;
  const std::string header = EncodeHeader(RandomRecording(1).Info());
  tree.Write("/t.json", absl::StrCat(header, "\n{\"t\":7.5,\"type\":\"sample\"}\n,{\"t\":8,\"type\":\""));
  std::filesystem::resize_file(tree.root() + "/t.json", 65 << 20);
  const Replayed replayed = Replay(tree.root() + "/t.json");
  CHECK(replayed.samples.size() == 1);
  CHECK(replayed.contents.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(replayed.contents.status().message()),
             Catch::Contains("/t.json: the record after 7s has more than 64 MiB"));
}

TEST_CASE("lines of any length are read") {
  const size_t length = (16 << 10) + GENERATE(range(-3, 4)) + GENERATE(0, 16 << 10);
  FixtureTree tree;
  const std::string header = EncodeHeader(RandomRecording(1).Info());
  const std::string begin = "{\"t\":1,\"type\":\"sample\",\"x\":\"", end = "\"}";
  const std::string sample = absl::StrCat(begin, std::string(length - begin.size() - end.size(), 'x'), end);
  for (const char* closing : {"\n]}\n", ""}) {
    tree.Write("/t.json", absl::StrCat(header, "\n", sample, "\n,", sample, closing));
    INFO(length);
    CHECK(Replay(tree.root() + "/t.json").samples.size() == 2);
  }
}

TEST_CASE("an unreadable file is reported with its path") {
  FixtureTree tree;
  tree.Write("/empty.json", "");
  tree.Write("/newer.json", "{\"schema\":\"cowprof.timeline/9\",\"header\":{},\"records\":[\n]}\n");
  const auto message = [&](const std::string& name, absl::StatusCode code) {
    const Replayed replayed = Replay(tree.root() + name);
    CHECK(replayed.contents.status().code() == code);
    CHECK(absl::StrContains(replayed.contents.status().message(), tree.root() + name));
    return std::string(replayed.contents.status().message());
  };
  CHECK(absl::StrContains(message("/nowhere.json", absl::StatusCode::kUnavailable), "No such file"));
  CHECK(absl::StrContains(message("/empty.json", absl::StatusCode::kInvalidArgument), "empty"));
  const std::string newer = message("/newer.json", absl::StatusCode::kUnimplemented);
  CHECK(absl::StrContains(newer, "cowprof.timeline/9"));
  CHECK(absl::StrContains(newer, "cowprof.timeline/1"));
}

TEST_CASE("a full disk costs samples, but neither the file nor any process") {
  const unsigned seed = GENERATE(range(1u, 9u));
  INFO("seed " << seed);
  FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  RandomRecording recording(seed);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  Run live;
  int failures = 0;
  const auto write = [&] {
    const Sample sample = recording.Next();
    Append(sample, &live);
    const absl::Status status = (*file)->Write(sample, {});
    if (!status.ok()) {
      ++failures;
      CHECK(absl::StrContains(status.message(), path));
    }
    REQUIRE(SchemaErrors(path) == std::vector<std::string>{});
  };
  for (int i = 0; i < 5; ++i) write();
  for (int full = 1; full <= 2; ++full) {
    const uint64_t dropped_before = (*file)->records_dropped();
    const std::string before = ReadWhole(path);
    {
      // Space for part of a record, so that a write stops in the middle.
      FileSizeLimit limit(before.size() + recording.Int(0, 30));
      for (int i = 0; i < 6; ++i) write();
    }
    CHECK((*file)->records_dropped() == dropped_before + 6);
    CHECK(failures == 1);  // reported once
    CHECK(ReadWhole(path) == before);
    for (int i = 0; i < 3; ++i) write();
    CHECK((*file)->records_dropped() == dropped_before + 6);
  }
  REQUIRE((*file)->Finish(live.model.t, "target ended").ok());
  CheckSameEnd(live.model, path);
  const Replayed replayed = Replay(path);
  CHECK(replayed.samples.size() == 5 + 2 * 3);
  CHECK(replayed.samples.back().losses.records_dropped == 12);
}

TEST_CASE("space that comes after the last sample is enough for a complete file") {
  const int full = GENERATE(1, 4);  // samples that find the disk full
  FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  RandomRecording recording(21);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  Run live;
  const auto write = [&] {
    const Sample sample = recording.Next();
    Append(sample, &live);
    static_cast<void>((*file)->Write(sample, {}));
  };
  for (int i = 0; i < 5; ++i) write();
  {
    FileSizeLimit limit(ReadWhole(path).size());
    for (int i = 0; i < full; ++i) write();
  }
  REQUIRE((*file)->records_dropped() == static_cast<uint64_t>(full));
  REQUIRE((*file)->Finish(live.model.t, "target ended").ok());
  CHECK((*file)->records_dropped() == static_cast<uint64_t>(full - 1));
  CHECK(SchemaErrors(path) == std::vector<std::string>{});
  CheckSameEnd(live.model, path);
  const Replayed replayed = Replay(path);
  CHECK(replayed.samples.size() == 6);
  CHECK(replayed.samples.back().losses.records_dropped == static_cast<uint64_t>(full - 1));
}

TEST_CASE("a disk that stays full to the end leaves a valid file and counts each record once") {
  FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  RandomRecording recording(22);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  REQUIRE((*file)->Write(recording.Next(), {}).ok());
  const std::string before = ReadWhole(path);
  FileSizeLimit limit(before.size());
  CHECK_FALSE((*file)->Write(recording.Next(), {}).ok());
  CHECK((*file)->Finish(absl::Seconds(9), "target ended").ok());  // the failure was reported
  limit.Lift();
  CHECK((*file)->records_dropped() == 2);  // the sample and the end
  CHECK(ReadWhole(path) == before);
}

TEST_CASE("a disk that has space for the end but not for the last sample leaves a recording without an end") {
  FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  RandomRecording recording(23);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  REQUIRE((*file)->Write(recording.Next(), {}).ok());
  const std::string before = ReadWhole(path);
  const absl::Duration t = absl::Seconds(9);
  FileSizeLimit limit(before.size() + EncodeEnd(t, "target ended").size() + 2);
  CHECK_FALSE((*file)->Write(recording.Next(), {}).ok());
  CHECK((*file)->Finish(t, "target ended").ok());  // the failure was reported
  limit.Lift();
  CHECK((*file)->records_dropped() == 2);
  CHECK(ReadWhole(path) == before);
  CHECK_FALSE(Replay(path).contents->complete);
}

TEST_CASE("what waits for a disk that is full for long is written in parts, each as soon as it fits") {
  FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  auto file = TimelineFile::Create(path, RandomRecording(24).Info());
  REQUIRE(file.ok());
  Run live;
  uint64_t ticks = 0;
  const auto write = [&] {
    const Sample sample = WithShortLives(static_cast<int>(ticks++));
    Append(sample, &live);
    static_cast<void>((*file)->Write(sample, {}));
  };
  write();
  const size_t before = ReadWhole(path).size();
  {
    FileSizeLimit limit(before);
    for (int i = 0; i < 12; ++i) write();
    CHECK(ReadWhole(path).size() == before);
    CHECK((*file)->records_dropped() == 12 - 4);  // of three ticks each becomes a record
  }
  SECTION("until there is space") {
    {
      FileSizeLimit limit(before * 5);  // for one of them
      write();
      CHECK(ReadWhole(path).size() > before * 3);
    }
    write();
    CHECK((*file)->records_dropped() == 12 - 4 + 1);
    REQUIRE((*file)->Finish(live.model.t, "target ended").ok());
    CheckSameEnd(live.model, path);
    const Replayed replayed = Replay(path);
    CHECK(replayed.samples.size() + replayed.samples.back().losses.records_dropped == ticks);
    CHECK(replayed.samples.size() == 1 + 4 + 1);
    for (const Sample& sample : replayed.samples) CHECK(sample.processes.size() < Backlog::kManyRows);
  }
  SECTION("until the end, when there is space") {
    REQUIRE((*file)->Finish(live.model.t, "target ended").ok());
    CHECK((*file)->records_dropped() == 12 - 4);
    CheckSameEnd(live.model, path);
  }
  SECTION("for ever") {
    FileSizeLimit limit(before);
    CHECK((*file)->Finish(live.model.t, "target ended").ok());  // the failure was reported
    limit.Lift();
    CHECK((*file)->records_dropped() == 12 + 1);
    CHECK(ReadWhole(path).size() == before);
  }
}

TEST_CASE("a full tmpfs") {
  FixtureTree tree;
  const bool mounted = mount("none", tree.root().c_str(), "tmpfs", 0, "size=32k") == 0;
  if (Lacks("tmpfs", mounted, "no right to mount one")) return;
  const std::string path = tree.root() + "/t.json";
  RandomRecording recording(11);
  Run live;
  {
    auto file = TimelineFile::Create(path, recording.Info());
    REQUIRE(file.ok());
    while ((*file)->records_dropped() < 20) {
      const Sample sample = recording.Next();
      Append(sample, &live);
      static_cast<void>((*file)->Write(sample, {}));
      REQUIRE(SchemaErrors(path) == std::vector<std::string>{});
    }
    REQUIRE(mount("none", tree.root().c_str(), "tmpfs", MS_REMOUNT, "size=1m") == 0);
    const Sample sample = recording.Next();
    Append(sample, &live);
    CHECK((*file)->Write(sample, {}).ok());
    CHECK((*file)->Finish(live.model.t, "target ended").ok());
  }
  CheckSameEnd(live.model, path);
  umount2(tree.root().c_str(), MNT_DETACH);
}

TEST_CASE("a full disk at the start is a failure, not an empty recording") {
  FixtureTree tree;
  FileSizeLimit limit(100);
  const auto file = TimelineFile::Create(tree.root() + "/t.json", RandomRecording(1).Info());
  limit.Lift();
  REQUIRE_FALSE(file.ok());
  CHECK(absl::StrContains(file.status().message(), tree.root() + "/t.json"));
}

}  // namespace cowprof
