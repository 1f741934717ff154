// The timeline on a network file system, which may lose what was written, and renames what is removed.
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "fixture_tree.h"
#include "network_disk.h"
#include "random_recording.h"
#include "timeline/timeline_file.h"

namespace cowprof {

TEST_CASE("a recording that a network file system could not keep is told at the end, and counts as a loss") {
  FixtureTree tree;
  NetworkDisk disk(tree.root());
  if (disk.IsLacking()) return;
  const std::string path = tree.root() + "/t.json";
  RandomRecording recording(25);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  const int error = GENERATE(0, EDQUOT);
  disk.FailAtClose(error);
  REQUIRE((*file)->Write(recording.Next(), {}).ok());
  const absl::Status status = (*file)->Finish(absl::Seconds(9), "target ended");
  CHECK(status.ok() == (error == 0));
  CHECK((*file)->records_dropped() == (error == 0 ? 0u : 1u));
  if (error != 0) {
    CHECK(status.message() == "write " + path + ": Disk quota exceeded; part of the recording may be lost");
    CHECK_FALSE(absl::IsInternal(status));  // status 6, not 1
  }
}

TEST_CASE("a recording that NFS keeps under another name was removed") {
  const auto [name, removed] = GENERATE(table<std::string, bool>({{".nfs00000000001a2b3c000000f1", true},
                                                                  {".nfs-trainer-of-the-first-fl", false},
                                                                  {".nfs00000000001a2b3c000000f1.json", false}}));
  FixtureTree tree;
  const std::string path = tree.root() + "/t.json";
  RandomRecording recording(26);
  auto file = TimelineFile::Create(path, recording.Info());
  REQUIRE(file.ok());
  REQUIRE((*file)->Write(recording.Next(), {}).ok());
  REQUIRE(rename(path.c_str(), (tree.root() + "/" + name).c_str()) == 0);
  const absl::Status status = (*file)->Write(recording.Next(), {});
  CHECK(status.ok() != removed);
  CHECK(absl::StrContains(status.message(), "t.json was removed; recording continues") == removed);
  CHECK((*file)->Finish(absl::Seconds(9), "target ended").ok() != removed);
}

}  // namespace cowprof
