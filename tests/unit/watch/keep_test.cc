#include "watch/keep.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_replace.h"

using namespace cowprof;

TEST_CASE("keep: an age, a size, both, or all") {
  CHECK(ParseKeep("7d,2GiB")->age == absl::Hours(168));
  CHECK(ParseKeep("7d,2GiB")->bytes == uint64_t{2} << 30);
  CHECK(ParseKeep("500MB,36h")->bytes == 500'000'000);
  CHECK(ParseKeep("36h")->bytes == UINT64_MAX);
  CHECK(ParseKeep("1GiB")->age == absl::InfiniteDuration());
  CHECK(ParseKeep("all")->age == absl::InfiniteDuration());
  for (const char* wrong : {"", "7", "7d,8d", "1GiB,2GiB", "0d", "-1d", "7d,", "0B", "seven", "7d;1GiB"})
    CHECK_FALSE(ParseKeep(wrong).ok());
}

TEST_CASE("keep: names are told from those of other files") {
  const auto name = RecordingName(4711, absl::FromUnixSeconds(1'795'600'000));
  CHECK(IsRecordingName(absl::StrReplaceAll(name, {{"%h", "node-1.lan"}, {"%j", "none"}, {"%r", "none"}})));
  CHECK(IsRecordingName(absl::StrReplaceAll(name, {{"%h", "n"}, {"%j", "job-7"}, {"%r", "3"}})));
  for (const char* other : {"cowprof-4711.json", "cowprof-n-j-3-4711.json", "cowprof-n-j-3-4711-20261125T1200Z.json",
                            "x-n-j-3-4711-20261125T120000Z.json", "cowprof-n-j-3-4711-20261125T120000Z.json.old",
                            "cowprof-n-j-x-4711-20261125T120000Z.json", "cowprof-n-j-3--20261125T120000Z.json",
                            "cowprof-3-4711-20261125T120000Z.json"})
    CHECK_FALSE(IsRecordingName(other));
}

TEST_CASE("keep: the oldest go first; one that is being written neither goes nor counts") {
  const absl::Time now = absl::FromUnixSeconds(1'000'000);
  const std::vector<KeptFile> files = {{"new", 10, now - absl::Hours(1), false},
                                       {"old", 10, now - absl::Hours(30), false},
                                       {"oldest", 10, now - absl::Hours(90), false},
                                       {"living", 100, now - absl::Hours(99), true}};
  using Names = std::vector<std::string>;
  CHECK(PlanRemovals(files, {}, now).empty());
  CHECK(PlanRemovals(files, {.age = absl::Hours(48)}, now) == Names{"oldest"});
  CHECK(PlanRemovals(files, {.bytes = 30}, now).empty());
  CHECK(PlanRemovals(files, {.bytes = 29}, now) == Names{"oldest"});
  CHECK(PlanRemovals(files, {.bytes = 10}, now) == Names{"oldest", "old"});
  CHECK(PlanRemovals(files, {.bytes = 1}, now) == Names{"oldest", "old"});  // the last one stays, however large
  CHECK(PlanRemovals(files, {.age = absl::Minutes(1), .bytes = 1}, now) == Names{"oldest", "old", "new"});
}
