// How large the table of touched regions is for a program that has not run yet.
#include <catch2/catch.hpp>

#include "recorder/set_up.h"

namespace cowprof {

TEST_CASE("a started program may fill the lowest limit of its memory with each of 64 processes") {
  const LimitSample host = {.kind = LimitKind::kHost, .limit = 6ull << 30},
                    open_files = {.kind = LimitKind::kDescriptors, .limit = 1024};
  const LimitSample cgroup = {.kind = LimitKind::kCgroupV2, .limit = 4ull << 30},
                    unlimited = {.kind = LimitKind::kCgroupV2};
  CHECK(RegionsOfStarted({host, open_files}) == 64 * 3072);
  CHECK(RegionsOfStarted({unlimited, cgroup, host}) == 64 * 2048);
}

TEST_CASE("neither a large host nor a small limit makes the table of regions too large or too small") {
  CHECK(RegionsOfStarted({}) == 262'144);
  CHECK(RegionsOfStarted({{.kind = LimitKind::kHost, .limit = UINT64_MAX}}) == 262'144);
  CHECK(RegionsOfStarted({{.kind = LimitKind::kCgroupV1, .limit = 64 << 20}}) == 65'536);
}

}  // namespace cowprof
