// Which parents are read, on this process and a child of it.
#include "recorder/parent_sweeps.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "child.h"
#include "followed.h"
#include "skip.h"

namespace cowprof {
namespace {

struct Family {
  Child child;
  Processes processes{ProcFs()};
  ParentSweeps sweeps{ProcFs(), static_cast<uint64_t>(getpagesize()), /*t0_ns=*/0};
  Rollups rollups{ProcFs()};
  NoPages pages;
  absl::Duration t = absl::Seconds(1);

  Family() {
    const FollowedProcess parent = Followed(getpid(), {}, Origin::kTarget, 1);
    processes.Add(parent);
    processes.Add(Followed(child.pid(), parent.id, Origin::kForked, 2));
  }

  // The parent's row after a tick at which its child has made `copies`, and a sweep of the parent that began at
  // `swept`.
  ProcessSample Tick(uint64_t copies, std::optional<absl::Duration> swept = std::nullopt) {
    Pull pull;
    pull.counts[2].copies = copies;
    Sample sample;
    sample.processes.resize(2);
    sample.processes[1].index = 1;
    if (swept) sample.processes[0].sweep = SweepFigures{.begin = *swept, .full = true, .private_pages = 7};
    sweeps.Run(processes, pull, {.t = t, .interval = absl::Seconds(100), .reader = pages}, &rollups, &sample);
    t += absl::Seconds(1);
    return sample.processes[0];
  }
};

TEST_CASE("live: a parent is read when its children have copied enough") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  CHECK(family.Tick(0).sweep);
  CHECK(!family.Tick(255).sweep);
  family.t += absl::Seconds(100);  // whatever the first one cost
  CHECK(family.Tick(1'000'000).sweep);
}

TEST_CASE("live: a parent that was swept in this tick is not read again") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  CHECK(family.Tick(0, family.t).sweep->private_pages == 7);
  CHECK(!family.Tick(0).sweep);
  CHECK(family.sweeps.cost() == absl::ZeroDuration());
  CHECK(family.Tick(1'000'000, family.t - absl::Milliseconds(1)).sweep->private_pages != 7);  // in the last tick
}

}  // namespace
}  // namespace cowprof
