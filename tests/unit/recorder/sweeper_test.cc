// What of a process is swept, on this process and a child of it, by regions that a fake source tells.
#include "recorder/sweeper.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "attribution_setting.h"
#include "followed.h"
#include "skip.h"

namespace cowprof {
namespace {

// Both children of this process have touched the region of `code_`.
struct Family {
  Child first, second;
  Processes processes{ProcFs()};
  FakeFaults faults;
  Sweeper sweeper{
      ProcFs(), {.page_bytes = static_cast<uint64_t>(getpagesize()), .interval = absl::Seconds(5)}, &faults};
  GupCopies gup;
  NoPages pages;
  Pull pull;
  absl::Duration t = absl::Seconds(1);

  Family() {
    const FollowedProcess parent = Followed(getpid(), {}, Origin::kTarget, 1);
    processes.Add(parent);
    processes.Add(Followed(first.pid(), parent.id, Origin::kForked, 2));
    const uint64_t region = At(kStore) / kRegionBytes * kRegionBytes;
    faults.regions = {{2, region}, {3, region}};
  }
  void ForkSecond() { processes.Add(Followed(second.pid(), processes.Find(1)->id, Origin::kForked, 3)); }

  // Whether all of the child was swept at a tick by which each child has made another 1000 copies; nullopt: nothing.
  std::optional<bool> WasFull(uint32_t serial) {
    for (const uint32_t child : {2, 3}) pull.counts[child].copies = pull.counts[child].copies.value_or(0) + 1000;
    t += absl::Seconds(50);  // whatever the last round cost; after a minute any process is swept in full
    for (const FinishedSweep& sweep :
         sweeper.Run(processes, pull, gup, {.t = t, .interval = absl::Hours(1), .reader = pages})) {
      if (sweep.serial == serial) return sweep.figures.full;
    }
    return std::nullopt;
  }
};

}  // namespace

TEST_CASE("live: what is new in the target is held against all of its pages") {
  if (LacksSmallAddressSpace()) return;
  const std::vector<char> memory(64 << 20, 1);  // shared with the children
  Family family;
  const auto sweeps_target = [&](uint64_t copies, absl::Duration later) {
    family.pull.counts[2].copies = family.pull.counts[2].copies.value_or(0) + copies;
    family.t += later;
    const std::vector<FinishedSweep> sweeps = family.sweeper.Run(
        family.processes, family.pull, family.gup, {.t = family.t, .interval = absl::Hours(1), .reader = family.pages});
    return std::any_of(sweeps.begin(), sweeps.end(), [](const FinishedSweep& sweep) { return sweep.serial == 1; });
  };
  for (int i = 0; i < 4; ++i) sweeps_target(1000, absl::Seconds(50));
  CHECK_FALSE(sweeps_target(40, absl::Seconds(6)));
  CHECK(sweeps_target(1000, absl::Seconds(6)));
}

TEST_CASE("live: where the table of regions was full, all of a process is swept from then on") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  REQUIRE(family.WasFull(2) == false);
  family.pull.losses.regions_dropped = 7;
  REQUIRE(family.WasFull(2) == true);
  family.ForkSecond();
  CHECK(family.WasFull(3) == false);  // nothing was lost since its fork
}

TEST_CASE("live: regions that were lost are never taken for swept, also once there is room again") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  family.pull.losses.regions_dropped = 7;
  REQUIRE(family.WasFull(2) == true);
  CHECK(family.WasFull(2) == true);
}

TEST_CASE("live: a parent is swept in full, like the target, and once more when its last child is gone") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  REQUIRE(family.WasFull(2) == false);
  const ProcessId trainer = family.processes.Find(2)->id;
  const FollowedProcess worker = Followed(family.second.pid(), trainer, Origin::kForked, 3);
  family.processes.Add(worker);
  CHECK(family.WasFull(2) == true);
  CHECK(family.WasFull(2) == true);
  family.processes.End(worker.id);
  CHECK(family.WasFull(2) == true);
  CHECK(family.WasFull(2) == false);
}

}  // namespace cowprof
