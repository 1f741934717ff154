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

// By then a round is due, whatever the last one cost. After a minute any process is swept in full.
constexpr absl::Duration kSoon = absl::Seconds(29);

// The first two children of this process have touched the region of `code_`.
struct Family {
  Child first, second, third;
  Processes processes{ProcFs()};
  FakeFaults faults;
  // A sample of the pages quadruples what a round may cost: emulated machines are slow.
  Sweeper sweeper{
      ProcFs(),
      {.page_bytes = static_cast<uint64_t>(getpagesize()), .sample_diverged = 1, .interval = absl::Seconds(5)},
      &faults};
  GupCopies gup;
  NoPages pages;
  Pull pull;
  absl::Duration t = absl::Seconds(1);
  uint64_t anon = 100'000, childs_anon = 100'000;  // of the target, and of each child; pages
  bool last = false;

  Family() {
    const FollowedProcess parent = Followed(getpid(), {}, Origin::kTarget, 1);
    processes.Add(parent);
    processes.Add(Followed(first.pid(), parent.id, Origin::kForked, 2));
    const uint64_t region = At(kStore) / kRegionBytes * kRegionBytes;
    faults.regions = {{2, region}, {3, region}};
  }
  void ForkSecond() { processes.Add(Followed(second.pid(), processes.Find(1)->id, Origin::kForked, 3)); }

  // Whether all of a process was swept by which each child has made another `copies`; nullopt: nothing.
  std::optional<bool> WasFull(uint32_t serial, absl::Duration later, uint64_t copies) {
    for (const uint32_t child : {2, 3}) pull.counts[child].copies = pull.counts[child].copies.value_or(0) + copies;
    t += later;
    std::vector<ProcessSample> rows;
    for (const LivingProcess* process : processes.by_index()) {
      rows.push_back({.index = process->index});
      rows.back().proc.anon_pages = process->index == 0 ? anon : childs_anon;
    }
    for (const FinishedSweep& sweep :
         sweeper.Run(processes, pull, gup, {.t = t, .interval = absl::Hours(1), .last = last, .reader = pages}, rows)) {
      if (sweep.serial == serial) return sweep.figures.full;
    }
    return std::nullopt;
  }
  std::optional<bool> WasFull(uint32_t serial) { return WasFull(serial, absl::Seconds(50), 1000); }
};

}  // namespace

TEST_CASE("live: what is new in the target is held against all of its pages") {
  if (LacksSmallAddressSpace()) return;
  const std::vector<char> memory(32 << 20, 1);  // shared with the children
  Family family;
  for (int i = 0; i < 5; ++i) family.WasFull(1);  // the last one is full
  CHECK_FALSE(family.WasFull(1, kSoon, 10));
  CHECK(family.WasFull(1, kSoon, 1000));
}

TEST_CASE("live: of the target what its workers touched is swept, and all where it may have changed without a fault") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  family.ForkSecond();
  const auto was_full = [&] { return family.WasFull(1, kSoon, 100'000); };
  REQUIRE(was_full() == true);
  family.anon += 2000;
  REQUIRE(was_full() == false);
  SECTION("a worker ends") { family.processes.End(family.processes.Find(3)->id); }
  SECTION("a worker calls exec") { family.processes.Exec(family.processes.Find(3)->id); }
  SECTION("another is forked") {
    family.processes.Add(Followed(family.third.pid(), family.processes.Find(1)->id, Origin::kForked, 4));
  }
  SECTION("it frees memory") { family.anon -= 2000; }
  SECTION("regions were lost") { family.pull.losses.regions_dropped = 7; }
  SECTION("the last round") { family.last = true; }
  SECTION("a minute passes") { family.t += absl::Seconds(30); }
  CHECK(was_full() == true);
}

TEST_CASE("live: a target that called exec before its first round, as a program that cowprof starts, is the target") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  family.sweeper.Exec(1, absl::ZeroDuration());
  const auto was_full = [&] { return family.WasFull(1, kSoon, 100'000); };
  REQUIRE(was_full() == true);
  CHECK(was_full() == false);  // what its worker touched
  family.last = true;
  CHECK(was_full() == true);
}

TEST_CASE("live: a target that freed much is swept in full, also if nobody did anything else") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  REQUIRE(family.WasFull(1, kSoon, 100'000) == true);
  family.anon -= 12'000;
  CHECK_FALSE(family.WasFull(1, kSoon, 0));
  family.anon -= 1'000;
  CHECK(family.WasFull(1, kSoon, 0) == true);
}

TEST_CASE(
    "live: a worker that freed much is swept in full, also if it did nothing else, and less often as it goes on") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  REQUIRE(family.WasFull(2, kSoon, 1000) == false);
  family.childs_anon -= 12'000;  // as a batch
  CHECK(family.WasFull(2, kSoon, 1000) == false);
  family.childs_anon -= 12'000;
  CHECK(family.WasFull(2, kSoon, 0) == true);
  CHECK_FALSE(family.WasFull(2, absl::Seconds(1), 0));
}

TEST_CASE("live: a worker is swept in full when its parent ends, or gives back what both had at the fork") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  REQUIRE(family.WasFull(2, kSoon, 1000) == false);
  SECTION("its parent ends") { family.processes.End(family.processes.Find(1)->id); }
  SECTION("its parent gives back") { family.anon -= 13'000; }
  SECTION("its parent gives back what it had allocated since") {
    family.anon += 20'000;
    CHECK_FALSE(family.WasFull(2, kSoon, 0));
    family.anon -= 20'000;
    CHECK_FALSE(family.WasFull(2, kSoon, 0));
    family.anon -= 13'000;
  }
  CHECK(family.WasFull(2, kSoon, 0) == true);
  CHECK_FALSE(family.WasFull(2, kSoon, 0));
}

TEST_CASE("live: a process to which much came back from swap is swept in full") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  REQUIRE(family.WasFull(2, kSoon, 1000) == false);
  family.pull.counts[2].swap_ins = 8000;
  CHECK(family.WasFull(2, kSoon, 1000) == false);
  family.pull.counts[2].swap_ins = 13'000;
  CHECK(family.WasFull(2, kSoon, 0) == true);
  CHECK_FALSE(family.WasFull(2, absl::Seconds(1), 0));
}

// As by mremap(2): RssAnon counts on, but nobody wrote where the memory is now.
TEST_CASE("live: a sweep that found much less of its own than a process has is not told, and all of it is swept next") {
  if (LacksSmallAddressSpace()) return;
  Family family;
  REQUIRE(family.WasFull(2, kSoon, 1000) == false);
  SECTION("a little less") {
    family.childs_anon += 3000;
    CHECK(family.WasFull(2, kSoon, 1000) == false);
    CHECK_FALSE(family.WasFull(2, kSoon, 0));
  }
  SECTION("much less") {
    family.childs_anon += 6000;
    CHECK_FALSE(family.WasFull(2, kSoon, 1000));
    REQUIRE(family.WasFull(2, kSoon, 0) == true);
    CHECK(family.WasFull(2, kSoon, 1000) == false);  // as much as all of it had
  }
  SECTION("much less, at the end") {
    family.childs_anon += 6000;
    family.last = true;
    CHECK_FALSE(family.WasFull(2, kSoon, 1000));
  }
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

TEST_CASE("live: a parent that is not the target is swept in full, and once more when its last child is gone") {
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
