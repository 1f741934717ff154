// Arithmetic that stays within what a count can be.
#include "model/saturating.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace cowprof {

TEST_CASE("a double that no count can be becomes the nearest one") {
  CHECK(SaturatingCast(41.9) == 41);
  CHECK(SaturatingCast(1e18) == 1'000'000'000'000'000'000);
  CHECK(SaturatingCast(-0.5) == 0);
  CHECK(SaturatingCast(0x1p64) == UINT64_MAX);
  CHECK(SaturatingCast(INFINITY) == UINT64_MAX);
  CHECK(SaturatingCast(-INFINITY) == 0);
  CHECK(SaturatingCast(NAN) == 0);
}

TEST_CASE("a difference of counts is never below 0") {
  CHECK(SaturatingSubtract(uint64_t{7}, 3) == 4);
  CHECK(SaturatingSubtract(uint64_t{7}, 7) == 0);
  CHECK(SaturatingSubtract(uint64_t{7}, 8) == 0);
  CHECK(SaturatingSubtract(uint64_t{0}, UINT64_MAX) == 0);
  CHECK(SaturatingSubtract(UINT64_MAX, 0) == UINT64_MAX);
  CHECK(SaturatingSubtract(uint32_t{3}, 4) == 0);
}

}  // namespace cowprof
