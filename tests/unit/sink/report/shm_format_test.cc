// /dev/shm as text: what stands in rows of its own, and what is folded.
#include "sink/report/shm_format.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "timeline/json_shm.h"

namespace cowprof {

TEST_CASE("shm: semaphores share one row, and take no row from others") {
  ShmSample sample = {.mount = "/dev/shm", .capacity_bytes = 64 << 20, .used_bytes = 1 << 20, .whole = true};
  for (int i = 0; i < 40; ++i)
    sample.segments.push_back({.name = absl::StrCat("sem.mp-", i),
                               .kind = SegmentKind::kSemaphore,
                               .bytes = 4096,
                               .length_bytes = 32,
                               .mapped_by = {7}});
  for (int i = 0; i < 3; ++i)
    sample.segments.push_back({.name = absl::StrCat("psm_", i),
                               .kind = SegmentKind::kMultiprocessing,
                               .bytes = 8192,
                               .length_bytes = 8192,
                               .mapped_by = {7}});
  const std::string text = ShmText(sample, 2, {});
  CHECK(absl::StrContains(text, "160.0 KiB     1.2 KiB  40 semaphores"));
  CHECK_FALSE(absl::StrContains(text, "sem.mp-"));
  CHECK(absl::StrContains(text, "psm_1"));
  CHECK_FALSE(absl::StrContains(text, "psm_2"));
  CHECK(absl::StrContains(text, "... and 1 smaller"));
}

TEST_CASE("shm: text and JSON tell a segment that is on its way from one that nobody uses, and what is left out") {
  ShmSample sample = {.mount = "/dev/shm", .device = 3, .whole = true, .omitted = 5, .omitted_bytes = 5000};
  for (const pid_t creator : {4711, 0, 4712})
    sample.segments.push_back({.name = "file", .device = 3, .bytes = 4096, .creator = creator});
  sample.segments[0].creator_alive = true;
  const std::string text = ShmText(sample, 2, {});
  CHECK(absl::StrContains(text, " on its way from 4711 "));
  CHECK(absl::StrContains(text, " none right now "));
  CHECK(absl::StrContains(text, "... and 6 smaller"));
  const nlohmann::ordered_json json = ShmJson(sample, 2);
  REQUIRE(json["segments"].size() == 2);
  CHECK(json["segments"][0]["creator_alive"] == true);
  CHECK(json["segments"][1]["creator_alive"] == false);
  CHECK(json["omitted"] == nlohmann::ordered_json({{"segments", 6}, {"bytes", 9096}}));
}

TEST_CASE("shm: whether a file is in use is unknown while a process was not looked at") {
  ShmSample sample = {.mount = "/dev/shm", .device = 3, .whole = true};
  sample.segments.push_back({.name = "nccl-1", .kind = SegmentKind::kFile, .device = 3, .bytes = 4096});
  CHECK(absl::StrContains(ShmText(sample, 2, {}), " none right now "));
  sample.unreadable = 2;
  const std::string text = ShmText(sample, 2, {});
  CHECK(absl::StrContains(text, " unknown "));
  CHECK_FALSE(absl::StrContains(text, "none right now"));
  CHECK(absl::StrContains(text, "2 processes that may use it could not be examined"));
  sample.unreadable = 0;
  sample.whole = false;  // only the tracked processes
  CHECK(absl::StrContains(ShmText(sample, 2, {}), " unknown "));
}

}  // namespace cowprof
