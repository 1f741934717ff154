// Who is said to fill a limit, and what is counted of those that ended.
#include "model/grower.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

constexpr uint64_t kMb = 1 << 20, kPagesOfMb = kMb / 4096;
constexpr absl::Duration kLastTick = absl::Seconds(10);

ProcessGrowth Worker(int index, uint64_t private_mb, uint64_t copied_mb = 0) {
  ProcessGrowth worker = {.index = index, .parent = 0, .origin = Origin::kForked, .role = Role::kWorker};
  worker.private_bytes = private_mb * kMb;
  worker.counts.copies = copied_mb * kPagesOfMb;
  worker.causes = CauseCounts{copied_mb * kPagesOfMb};
  return worker;
}

Grower GrowerAmong(std::vector<ProcessGrowth> processes, double gained_mb) {
  Growth growth;
  growth.processes = std::move(processes);
  return GrowerOf(LimitKind::kCgroupV1, gained_mb * kMb, {{}, kLastTick}, growth);
}

}  // namespace

TEST_CASE("the process that gained most, and with what") {
  const Grower grower = GrowerAmong({Worker(1, 30), Worker(2, 90, 80), Worker(3, 20)}, 140);
  CHECK(grower.index == 2);
  CHECK(grower.cause == "refcount");
  CHECK(grower.copied_bytes == 80 * kMb);
  CHECK(grower.gained_bytes == 140 * kMb);
  CHECK(grower.leaving_bytes == 0);
}

TEST_CASE("what a limit gained mostly from elsewhere has no grower") {
  const Grower grower = GrowerAmong({Worker(1, 30, 20)}, 200);
  CHECK(grower.index == -1);
  CHECK(grower.cause == "");
  CHECK(grower.copied_bytes == 20 * kMb);
}

// The collector moves an end between the last pull and its tick to that tick.
TEST_CASE("memory of those that ended since the last tick is leaving, earlier ones' is gone") {
  const auto ended = [](int index, absl::Duration at) {
    ProcessGrowth worker = Worker(index, 50, 10);
    worker.ended = at;
    return worker;
  };
  const Grower grower = GrowerAmong({Worker(1, 20), ended(2, kLastTick - absl::Milliseconds(1)), ended(3, kLastTick),
                                     ended(4, kLastTick + absl::Milliseconds(1))},
                                    70);
  CHECK(grower.leaving_bytes == 100 * kMb);
  CHECK(grower.gained_bytes == 20 * kMb);
  CHECK(grower.index == 1);
}

}  // namespace cowprof
