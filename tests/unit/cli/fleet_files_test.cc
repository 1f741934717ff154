// Which files are read as recordings, by whom.
#include "cli/fleet_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "fixture_tree.h"
#include "random_recording.h"
#include "root_as_on_nfs.h"
#include "skip.h"

namespace cowprof {

TEST_CASE("under sudo recordings are read that only the user may read, as in a home on NFS") {
  if (LacksRoot()) return;
  FixtureTree tree;
  const std::string home = tree.root() + "/home", path = home + "/t.json";
  REQUIRE(mkdir(home.c_str(), 0700) == 0);
  RandomRecording recording(27);
  {
    auto file = TimelineFile::Create(path, recording.Info());
    REQUIRE(file.ok());
    REQUIRE((*file)->Write(recording.Next(), {}).ok());
    REQUIRE((*file)->Finish(absl::Seconds(9), "target ended").ok());
  }
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

}  // namespace cowprof
