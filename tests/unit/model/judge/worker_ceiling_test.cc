// What workers to come cost at most, on paper.
#include "model/judge/worker_ceiling.h"

#include <catch2/catch.hpp>

namespace cowprof {

TEST_CASE("n workers cost n times what the parent has, against the limits that copies are charged to") {
  const std::vector<LimitSample> limits = {{LimitKind::kShm, "/dev/shm", 64, 1},
                                           {LimitKind::kCgroupV2, "/job", 1000, 100},
                                           {LimitKind::kCgroupV2, "/", std::nullopt, 100},
                                           {LimitKind::kHost, "MemTotal", 10'000, 500}};
  const WorkerCeiling ceiling = CeilingOfWorkers(8, 100, limits);
  CHECK(ceiling.bytes == 800);
  REQUIRE(ceiling.limits.size() == 2);
  CHECK(ceiling.limits[0].used_at_most == 900);
  CHECK(ceiling.limits[0].outlook == Outlook::kSafe);
  CHECK(ceiling.limits[1].used_at_most == 1300);
  CHECK(CeilingOfWorkers(9, 100, limits).limits[0].outlook == Outlook::kWillExceed);
  CHECK(CeilingOfWorkers(1, 855, limits).limits[0].outlook == Outlook::kTight);
}

TEST_CASE("a ceiling beyond all numbers is the largest one") {
  const WorkerCeiling ceiling = CeilingOfWorkers(65'536, UINT64_MAX / 2, {{LimitKind::kHost, "", UINT64_MAX, 9}});
  CHECK(ceiling.bytes == UINT64_MAX);
  CHECK(ceiling.limits[0].used_at_most == UINT64_MAX);
}

}  // namespace cowprof
