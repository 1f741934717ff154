// Who is said to fill a limit, and what is counted of those that ended.
#include "model/judge/top_contributor.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

constexpr uint64_t kMb = 1 << 20, kPagesOfMb = kMb / 4096;
constexpr absl::Duration kLastTick = absl::Seconds(10);

ProcessModel Worker(int index, uint64_t private_mb, uint64_t copied_mb = 0) {
  ProcessModel worker = {.index = index, .parent = 0, .origin = Origin::kForked, .role = Role::kWorker};
  worker.private_bytes = private_mb * kMb;
  worker.counts.copies = copied_mb * kPagesOfMb;
  worker.causes = CauseCounts{copied_mb * kPagesOfMb};
  return worker;
}

TopContributor TopContributorAmong(std::vector<ProcessModel> processes, double gained_mb) {
  RunModel model;
  model.processes = std::move(processes);
  return TopContributorOf(LimitKind::kCgroupV1, gained_mb * kMb, {{}, kLastTick}, model);
}

}  // namespace

TEST_CASE("the process that gained most, and with what") {
  const TopContributor top_contributor = TopContributorAmong({Worker(1, 30), Worker(2, 90, 80), Worker(3, 20)}, 140);
  CHECK(top_contributor.index == 2);
  CHECK(top_contributor.cause == "refcount");
  CHECK(top_contributor.copied_bytes == 80 * kMb);
  CHECK(top_contributor.gained_bytes == 140 * kMb);
  CHECK(top_contributor.leaving_bytes == 0);
}

TEST_CASE("copied pages of files are new to the process, and keep their cause") {
  ProcessModel worker = Worker(1, 100, 90);
  worker.copies_of_files = 80 * kPagesOfMb;
  TopContributor top_contributor = TopContributorAmong({worker}, 100);
  CHECK(top_contributor.cause == "refcount");
  CHECK(top_contributor.copied_bytes == 10 * kMb);
  CHECK(top_contributor.gained_bytes == 100 * kMb);
  worker.copies_of_files = 40 * kPagesOfMb;
  worker.private_bytes = 200 * kMb;
  top_contributor = TopContributorAmong({worker}, 200);
  CHECK(top_contributor.cause == "new-memory");
  CHECK(top_contributor.copied_bytes == 50 * kMb);
}

TEST_CASE("what a limit gained mostly from elsewhere has no grower") {
  const TopContributor top_contributor = TopContributorAmong({Worker(1, 30, 20)}, 200);
  CHECK(top_contributor.index == -1);
  CHECK(top_contributor.cause == "");
  CHECK(top_contributor.copied_bytes == 20 * kMb);
}

// The collector moves an end between the last pull and its tick to that tick.
TEST_CASE("memory of those that ended since the last tick is leaving, earlier ones' is gone") {
  const auto ended = [](int index, absl::Duration at) {
    ProcessModel worker = Worker(index, 50, 10);
    worker.ended = at;
    return worker;
  };
  const TopContributor top_contributor =
      TopContributorAmong({Worker(1, 20), ended(2, kLastTick - absl::Milliseconds(1)), ended(3, kLastTick),
                           ended(4, kLastTick + absl::Milliseconds(1))},
                          70);
  CHECK(top_contributor.leaving_bytes == 100 * kMb);
  CHECK(top_contributor.gained_bytes == 20 * kMb);
  CHECK(top_contributor.index == 1);
}

}  // namespace cowprof
