// Which files are read as recordings, by whom.
#include "cli/fleet_files.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fixture_tree.h"
#include "posix/fd.h"
#include "random_recording.h"
#include "root_as_on_nfs.h"
#include "skip.h"

namespace cowprof {
namespace {

void WriteRecording(const std::string& path) {
  RandomRecording recording(27);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  REQUIRE((*file)->Write(recording.Next(), {}).ok());
  REQUIRE((*file)->Finish(absl::Seconds(9), "target ended").ok());
}

std::string StderrOf(const std::function<void()>& run) {
  const Fd written(memfd_create("stderr", MFD_CLOEXEC)), before(dup(STDERR_FILENO));
  dup2(written.fd(), STDERR_FILENO);
  run();
  dup2(before.fd(), STDERR_FILENO);
  char text[1000];
  const ssize_t size = pread(written.fd(), text, sizeof(text), 0);
  return std::string(text, std::max<ssize_t>(size, 0));
}

}  // namespace

TEST_CASE("under sudo recordings are read that only the user may read, as in a home on NFS") {
  if (LacksRoot()) return;
  FixtureTree tree;
  const std::string home = tree.root() + "/home", path = home + "/t.json";
  REQUIRE(mkdir(home.c_str(), 0700) == 0);
  WriteRecording(path);
  for (const std::string& theirs : {path, home}) REQUIRE(chown(theirs.c_str(), kUserOnNfs, kUserOnNfs) == 0);
  REQUIRE(chmod(tree.root().c_str(), 0755) == 0);
  const int status = StatusOfRootAsOnNfs([&] {
    WholeRecording whole;
    if (!ReadRecording(path, {}, &whole).ok() || !whole.complete) return 2;
    if (!IsFolder(home) || IsFolder(path)) return 3;
    const absl::StatusOr<FleetFiles> files = ReadFleet({home});
    if (!files.ok() || !files->problem.empty() || files->fleet.rows.empty()) return 4;
    return CheckIsNotRead(path, {home}).ok() || !CheckIsNotRead(home + "/other.json", {home}).ok() ? 5 : 0;
  });
  CHECK(status == 0);
}

TEST_CASE("in a folder only regular files are read: a FIFO would be waited for") {
  FixtureTree tree;
  const auto notes_and_problem = [&] {
    const absl::StatusOr<FleetFiles> files = ReadFleet({tree.root()});
    REQUIRE(files.ok());
    return absl::StrCat(absl::StrJoin(files->fleet.notes, " "), files->problem);
  };
  WriteRecording(tree.root() + "/a.json");
  REQUIRE(mknod((tree.root() + "/socket.json").c_str(), S_IFSOCK | 0600, 0) == 0);
  REQUIRE(absl::StrContains(notes_and_problem(), "1 file of the folder was left out: not a recording."));
  REQUIRE(mkfifo((tree.root() + "/fifo.json").c_str(), 0600) == 0);
  tree.Link("/link.json", "fifo.json");
  CHECK(absl::StrContains(notes_and_problem(), "3 files of the folder were left out: not recordings."));
  tree.Link("/gone.json", "nowhere");
  CHECK(absl::StrContains(notes_and_problem(), "gone.json: No such file"));
}

// A program may start a trainer for each of thousands of jobs: each would be read as a run of its own.
TEST_CASE("ranks get a row each, unless there are thousands") {
  for (const size_t ranks : {3, 2000}) {
    FixtureTree tree;
    const std::string path = tree.root() + "/t.json";
    Sample sample;
    for (int index = 0; index <= static_cast<int>(ranks); ++index) {
      const Origin origin = index == 0 ? Origin::kTarget : Origin::kForked;
      sample.events.push_back(
          {.index = index,
           .what = ProcessStarted{.id = {100 + index, 1}, .parent = index - 1 < 0 ? -1 : 0, .origin = origin}});
      if (index > 0) sample.events.push_back({.index = index, .what = DutyFound{.duty = Duty::kTrainer}});
    }
    auto file = TimelineFile::Create(path, RandomRecording(28).Info());
    REQUIRE(file.ok());
    REQUIRE((*file)->Write(sample, {}).ok());
    REQUIRE((*file)->Finish(absl::Seconds(9), "target ended").ok());
    WholeRecording whole;
    const std::string noted = StderrOf([&] { REQUIRE(ReadRecording(path, {}, &whole).ok()); });
    const bool together = ranks > 1000;
    CHECK(absl::StrContains(noted, "has 2,000 ranks, which are reported together") == together);
    CHECK(noted.empty() == !together);
    const auto rows = RowsOf(whole, Judge(whole.run));
    REQUIRE(rows.ok());
    CHECK(rows->size() == (together ? 1 : ranks));
    CHECK(TellsRanksApart(whole) == !together);
  }
}

}  // namespace cowprof
