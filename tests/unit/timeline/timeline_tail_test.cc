// Following a recording while it is written yields the same as reading it afterwards, wherever the reads fall.
#include "timeline/timeline_tail.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "fixture_tree.h"
#include "json_schema.h"
#include "model/facts/run_model.h"
#include "random_recording.h"
#include "timeline/timeline_file.h"

namespace cowprof {
namespace {

struct Followed {
  int infos = 0;
  std::vector<Sample> samples;
  TimelineTail tail;
  explicit Followed(Fd fd)
      : tail(std::move(fd),
             {.on_info = [this](const RunInfo&) { ++infos; },
              .on_sample = [this](const Sample& sample, const std::vector<Alert>&) { samples.push_back(sample); }}) {}
};

std::vector<Sample> ReadAll(const std::string& path) {
  std::vector<Sample> samples;
  const TimelineReaders readers = {
      .on_info = [](const RunInfo&) {},
      .on_sample = [&](const Sample& sample, const std::vector<Alert>&) { samples.push_back(sample); }};
  REQUIRE(ReadTimeline(path, readers).ok());
  return samples;
}

}  // namespace

TEST_CASE("each sample comes once, as soon as it is written") {
  const FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  RandomRecording recording(7);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  absl::StatusOr<Fd> fd = (*file)->OpenToRead();
  REQUIRE(fd.ok());
  Followed followed(*std::move(fd));
  for (int i = 0; i < 50; ++i) {
    REQUIRE((*file)->Write(recording.Next(), {}).ok());
    if (i % 3 == 0) continue;  // sometimes read several at a time
    REQUIRE(followed.tail.Read().ok());
    CHECK(static_cast<int>(followed.samples.size()) == i + 1);
    REQUIRE(followed.tail.Read().ok());
    CHECK(static_cast<int>(followed.samples.size()) == i + 1);
  }
  CHECK_FALSE(followed.tail.complete());
  REQUIRE((*file)->Finish(absl::Seconds(99), "target ended").ok());
  REQUIRE(followed.tail.Read().ok());
  CHECK(followed.tail.complete());
  CHECK(followed.infos == 1);
  CHECK(followed.samples == ReadAll(path));
}

TEST_CASE("an incomplete line is read once it is complete") {
  const FixtureTree tree;
  const std::string path = tree.root() + "/t.json", growing = tree.root() + "/growing.json";
  RandomRecording recording(11);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  for (int i = 0; i < 4; ++i) REQUIRE((*file)->Write(recording.Next(), {}).ok());
  REQUIRE((*file)->Finish(absl::Seconds(9), "target ended").ok());
  const std::string bytes = ReadWhole(path);
  const Fd writing(open(growing.c_str(), O_CREAT | O_WRONLY, 0600));
  Followed followed{Fd(open(growing.c_str(), O_RDONLY))};
  for (size_t at = 0; at < bytes.size(); at += 7) {
    const std::string piece = bytes.substr(at, 7);
    REQUIRE(write(writing.fd(), piece.data(), piece.size()) == static_cast<ssize_t>(piece.size()));
    REQUIRE(followed.tail.Read().ok());
  }
  CHECK(followed.tail.complete());
  CHECK(followed.samples == ReadAll(path));
}

TEST_CASE("what the writer took back is not read, wherever the disk was full") {
  const FixtureTree tree;
  const std::string path = tree.root() + "/t.json", growing = tree.root() + "/growing.json", closing = "\n]}\n";
  RandomRecording recording(13);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  const Fd writing(open(growing.c_str(), O_CREAT | O_WRONLY, 0600));
  const auto put = [&](const std::string& bytes, size_t at) {
    REQUIRE(pwrite(writing.fd(), bytes.data(), bytes.size(), at) == static_cast<ssize_t>(bytes.size()));
  };
  put(ReadWhole(path), 0);
  Followed followed{Fd(open(growing.c_str(), O_RDONLY))};
  for (size_t i = 0; i < 6; ++i) {
    const size_t end = ReadWhole(path).size() - closing.size();
    const Sample sample = recording.Next();
    REQUIRE((*file)->Write(sample, {}).ok());
    const std::string appended = ReadWhole(path).substr(end);
    for (size_t part = 1; part < appended.size(); part += part + 40 < appended.size() ? 37 : 1) {
      put(appended.substr(0, part), end);
      REQUIRE(followed.tail.Read().ok());
      put(closing, end);
      REQUIRE(ftruncate(writing.fd(), end + closing.size()) == 0);
      REQUIRE(followed.tail.Read().ok());
      REQUIRE(followed.samples.size() == i);
    }
    put(appended, end);
    REQUIRE(followed.tail.Read().ok());
    REQUIRE(followed.samples.size() == i + 1);
  }
  CHECK(followed.samples == ReadAll(path));
}

}  // namespace cowprof
