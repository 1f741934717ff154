#include "watch/recorders.h"

#include <catch2/catch.hpp>

using namespace cowprof;

namespace {

Root Of(pid_t pid, uid_t user) { return {.id = {pid, 10'000'000 * static_cast<uint64_t>(pid)}, .user = user}; }

}  // namespace

TEST_CASE("recorders: what failed waits ever longer, what has ended is not recorded again") {
  Attempts attempts;
  CHECK(AfterEnd(attempts, 0, absl::Seconds(5)).again == absl::InfiniteDuration());
  CHECK(AfterEnd(attempts, 0, absl::Seconds(5)).refused_from == absl::InfiniteDuration());
  CHECK(AfterEnd(attempts, 4, absl::Seconds(5)).again == absl::InfiniteDuration());
  CHECK(AfterEnd(attempts, 4, absl::Seconds(5)).refused_from == absl::Seconds(65));
  attempts = AfterEnd(attempts, 6, absl::Seconds(5));
  CHECK(attempts.again == absl::Seconds(15));
  attempts = AfterEnd(attempts, std::nullopt, absl::Seconds(15));
  CHECK(attempts.again == absl::Seconds(35));
  for (int i = 0; i < 100; ++i) attempts = AfterEnd(attempts, 1, absl::ZeroDuration());
  CHECK(attempts.again == absl::Minutes(10));
}

TEST_CASE("recorders: after one that recorded for long, failures are counted anew") {
  Attempts attempts = {.failed = 7, .place = 2};
  const absl::Duration now = absl::Hours(30);
  CHECK(AfterEnd(attempts, std::nullopt, now, absl::Minutes(5)).again == now + absl::Minutes(10));
  attempts = AfterEnd(attempts, std::nullopt, now, absl::Hours(24));
  CHECK(attempts.again == now + absl::Seconds(10));
  CHECK(attempts.place == 2u);
  CHECK(AfterEnd(attempts, 6, now).again == now + absl::Seconds(20));
}

TEST_CASE("recorders: what is recorded again has its place again, all others the next free one") {
  const uint32_t none = UINT32_MAX;
  CHECK(PlaceFor(std::nullopt, none, {}, 4) == 0);
  CHECK(PlaceFor(std::nullopt, 0, {0}, 4) == 1);
  CHECK(PlaceFor(std::nullopt, 1, {2}, 4) == 3);
  CHECK(PlaceFor(std::nullopt, 3, {0, 2}, 4) == 1);
  CHECK(PlaceFor(1, 3, {0, 2}, 4) == 1);
  CHECK(PlaceFor(2, 3, {0, 2}, 4) == 1);
  CHECK(PlaceFor(std::nullopt, 0, {}, 1) == 0);
  Attempts attempts = {.place = 2};
  CHECK(AfterEnd(attempts, std::nullopt, absl::Seconds(5)).place == 2u);
}

TEST_CASE("recorders: the user with the fewest comes first, then the oldest") {
  const std::vector<Root> roots = {Of(1, 7), Of(2, 7), Of(3, 8), Of(4, 7)};
  absl::flat_hash_map<ProcessId, Attempts> attempts;
  const auto next = [&](const std::vector<Root>& recorded, absl::Duration now = absl::ZeroDuration()) {
    const Root* root = NextRoot(roots, recorded, attempts, now);
    return root != nullptr ? root->id.pid : 0;
  };
  CHECK(next({}) == 1);
  CHECK(next({roots[0]}) == 3);
  CHECK(next({roots[0], roots[2]}) == 2);
  CHECK(next(roots) == 0);
  attempts[roots[0].id] = {.failed = 1, .again = absl::Seconds(9)};
  CHECK(next({}) == 2);
  CHECK(next({}, absl::Seconds(9)) == 1);
}
