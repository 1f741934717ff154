// pagemap.cc on hand-made entries, bit by bit, and on real children that write some of the pages they inherited. As
// root the figures must be exact; without PFNs bit 56 must suffice.
#include "source/pagemap.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "child.h"
#include "skip.h"

namespace cowprof {
namespace {

constexpr uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62, kFile = 1ull << 61, kExclusive = 1ull << 56;
constexpr uint64_t kSoftDirty = 1ull << 55, kUffd = 1ull << 57, kGuard = 1ull << 58;
constexpr uint64_t kZero = 77;  // PFN of the zero page

RegionPages Classify(std::vector<uint64_t> own, std::vector<uint64_t> peer, uint64_t zero_pfn = kZero) {
  return ClassifyPages(own, peer, zero_pfn);
}

uint64_t BootNs() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1'000'000'000ull + now.tv_nsec;
}

ProcessId IdOf(pid_t pid) {
  const auto stat = ProcFs().ReadStat(pid);
  REQUIRE(stat.ok());
  return {pid, stat->start_ns()};
}

// Anonymous memory at a 2 MiB boundary, so that nothing else is in its regions; every page was written.
class Memory {
 public:
  explicit Memory(size_t regions, int advice = MADV_NOHUGEPAGE) : bytes_(regions * kRegionBytes) {
    map_ = mmap(nullptr, bytes_ + kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(map_ != MAP_FAILED);
    start_ = (reinterpret_cast<uint64_t>(map_) + kRegionBytes - 1) / kRegionBytes * kRegionBytes;
    madvise(map_, bytes_ + kRegionBytes, advice);
    for (size_t page = 0; page < pages(); ++page) Write(page);
  }
  ~Memory() { munmap(map_, bytes_ + kRegionBytes); }

  size_t pages() const { return bytes_ / getpagesize(); }
  void Write(size_t page) { reinterpret_cast<volatile char*>(start_)[page * getpagesize()] = 1; }
  void Drop(size_t page) {
    madvise(reinterpret_cast<char*>(start_) + page * getpagesize(), getpagesize(), MADV_DONTNEED);
  }
  void Read(size_t page) { static_cast<void>(reinterpret_cast<volatile char*>(start_)[page * getpagesize()]); }
  std::vector<uint64_t> regions() const {
    std::vector<uint64_t> regions;
    for (uint64_t at = start_; at < start_ + bytes_; at += kRegionBytes) regions.push_back(at);
    return regions;
  }

 private:
  void* map_;
  uint64_t start_;
  size_t bytes_;
};

FinishedSweep SweepOnce(SweepJob job, int* runs = nullptr) {
  PagemapSweep sweep(ProcFs(), getpagesize(), BootNs());
  sweep.Add(std::move(job));
  for (int i = 0; i < 100'000; ++i) {
    const std::vector<FinishedSweep> finished = sweep.Run(runs ? absl::Nanoseconds(1) : absl::Seconds(1));
    if (runs) ++*runs;
    if (finished.empty()) continue;
    CHECK(sweep.idle());
    CHECK(finished[0].serial == 5);
    return finished[0];
  }
  FAIL("no result");
  return {};
}

SweepFigures Sweep(SweepJob job, int* runs = nullptr) { return SweepOnce(std::move(job), runs).figures; }

bool PfnsVisible() {
  Memory memory(1);
  const ProcessId self = IdOf(getpid());
  return Sweep({.serial = 5, .process = self, .peer = self, .regions = memory.regions()}).same_pages > 0;
}

// Whether pages that were only read share a frame. Some kernels (seen: 6.18 in a Firecracker guest) give each its own.
bool HasZeroPage() {
  Memory memory(1);
  for (size_t page = 0; page < 2; ++page) memory.Drop(page);
  for (size_t page = 0; page < 2; ++page) memory.Read(page);
  return Sweep({.serial = 5, .process = IdOf(getpid()), .regions = memory.regions()}).zero_pages == 2;
}

}  // namespace

TEST_CASE("entries of absent pages and of file pages are not counted") {
  CHECK(Classify({}, {}) == RegionPages{});
  CHECK(Classify({0, kSoftDirty, kUffd, kGuard, kExclusive, 5}, {0, 0, 0, 0, 0, 5}) == RegionPages{});
  CHECK(Classify({kPresent | kFile | 9, kPresent | kFile | kExclusive | 9}, {9, 9}) == RegionPages{});
}

TEST_CASE("bit 56 makes anonymous pages private or shared") {
  CHECK(Classify({kPresent | kExclusive | 9, kPresent | 10, kPresent | 11 | kSoftDirty | kUffd}, {}) ==
        RegionPages{.private_pages = 1, .shared_pages = 2});
}

TEST_CASE("zero pages are counted separately") {
  CHECK(Classify({kPresent | kZero}, {kPresent | kZero}) == RegionPages{.zero_pages = 1});
  CHECK(Classify({kPresent | kZero}, {}) == RegionPages{.zero_pages = 1});
  // Hidden PFNs are 0, and so is the PFN of the zero page then.
  CHECK(Classify({kPresent}, {}, 0) == RegionPages{.shared_pages = 1});
}

TEST_CASE("against the peer a page is the same, diverged or new") {
  CHECK(Classify({kPresent | 9}, {kPresent | 9}) == RegionPages{.shared_pages = 1, .same_pages = 1});
  CHECK(Classify({kPresent | kExclusive | 8}, {kPresent | kExclusive | 9}) ==
        RegionPages{.private_pages = 1, .diverged_pages = 1});
  CHECK(Classify({kPresent | kExclusive | 8}, {0}) == RegionPages{.private_pages = 1, .new_pages = 1});
  // Diverged from the parent, and shared with a child of its own.
  CHECK(Classify({kPresent | 8}, {kPresent | 9}) == RegionPages{.shared_pages = 1, .diverged_pages = 1});
  CHECK(Classify({kPresent | kExclusive | 8, kPresent | kExclusive | 7}, {kPresent | 9}) ==
        RegionPages{.private_pages = 2, .diverged_pages = 1, .new_pages = 1});
}

TEST_CASE("an equal PFN is shared, even if bit 56 says exclusive as for huge pages since 6.17") {
  CHECK(Classify({kPresent | kExclusive | 9}, {kPresent | kExclusive | 9}) ==
        RegionPages{.shared_pages = 1, .same_pages = 1});
}

TEST_CASE("swapped pages are counted and are not present") {
  CHECK(Classify({kSwapped | 5, kSwapped | kExclusive | 6}, {kSwapped | 5, 0}) == RegionPages{.swapped_pages = 2});
  // A swap entry of the peer is not a PFN, even if the number is the same.
  CHECK(Classify({kPresent | kExclusive | 5}, {kSwapped | 5}).private_pages == 1);
  CHECK(Classify({kPresent | kExclusive | 5}, {kSwapped | 5}).same_pages == 0);
}

TEST_CASE("without PFNs nothing is known about the peer") {
  CHECK(Classify({kPresent | kExclusive, kPresent, kPresent | kFile}, {kPresent, kPresent, kPresent}, 0) ==
        RegionPages{.private_pages = 1, .shared_pages = 1});
}

TEST_CASE("a whole region of each kind is counted without overflow") {
  const std::vector<uint64_t> own(512, kPresent | kExclusive | 9), peer(512, kPresent | 8);
  CHECK(Classify(own, peer) == RegionPages{.private_pages = 512, .diverged_pages = 512});
}

TEST_CASE("live: a child that wrote N of M pages has N private ones") {
  if (Lacks("page frames", PfnsVisible(), "CAP_SYS_ADMIN")) return;
  Memory memory(3);
  const uint64_t all = memory.pages(), written = GENERATE(0, 1, 300, 1536);
  Child child([&] {
    for (uint64_t page = 0; page < written; ++page) memory.Write((page * 5) % memory.pages());
  });
  const ProcessId worker = IdOf(child.pid()), parent = IdOf(getpid());
  const SweepJob job = {.serial = 5, .process = worker, .peer = parent, .regions = memory.regions()};
  const SweepFigures own = Sweep(job);
  CHECK(own.private_pages == written);
  CHECK(own.shared_pages == all - written);
  CHECK(own.diverged_pages == written);
  CHECK(own.same_pages == all - written);
  CHECK(own.new_pages == 0);
  CHECK(own.zero_pages == 0);
  CHECK(own.regions == 3);
  CHECK_FALSE(own.full);
  // Where the clock of CPU time advances by ticks, as in an emulated guest, one sweep may take none.
  absl::Duration cost = own.cost;
  for (int more = 0; more < 1000 && cost == absl::ZeroDuration(); ++more) cost = Sweep(job).cost;
  CHECK(cost > absl::ZeroDuration());
  CHECK(own.end >= own.begin);
  // The parent has the originals of copied pages exclusively.
  const SweepFigures parents = Sweep({.serial = 5, .process = parent, .peer = worker, .regions = memory.regions()});
  CHECK(parents.private_pages == written);
  CHECK(parents.diverged_pages == written);
  CHECK(parents.same_pages == all - written);
}

TEST_CASE("live: new pages, dropped pages and the zero page") {
  if (Lacks("page frames", PfnsVisible(), "CAP_SYS_ADMIN")) return;
  Memory memory(2);
  for (size_t page = 0; page < 40; ++page) memory.Drop(page);  // the parent lacks 0..39
  Child child([&] {
    for (size_t page = 0; page < 10; ++page) memory.Write(page);    // new
    for (size_t page = 10; page < 17; ++page) memory.Read(page);    // zeroes
    for (size_t page = 40; page < 43; ++page) memory.Write(page);   // copies
    for (size_t page = 100; page < 130; ++page) memory.Drop(page);  // gone
  });
  const SweepFigures own =
      Sweep({.serial = 5, .process = IdOf(child.pid()), .peer = IdOf(getpid()), .regions = memory.regions()});
  const size_t zeroes = HasZeroPage() ? 7 : 0;
  CHECK(own.private_pages == 10 + (7 - zeroes) + 3);
  CHECK(own.new_pages == 10 + (7 - zeroes));
  CHECK(own.zero_pages == zeroes);
  CHECK(own.diverged_pages == 3);
  CHECK(own.shared_pages == memory.pages() - 40 - 3 - 30);
  CHECK(own.same_pages == own.shared_pages);
}

TEST_CASE("live: a sweep of regions that waited is as old as what is known of them") {
  Memory memory(1);
  SweepJob job = {.serial = 5, .process = IdOf(getpid()), .regions = memory.regions()};
  CHECK(Sweep(job).begin >= absl::ZeroDuration());
  job.regions_as_of = -absl::Seconds(3);
  CHECK(Sweep(job).begin == -absl::Seconds(3));
}

TEST_CASE("live: a full sweep finds the same by itself, in pieces of any size") {
  if (LacksSmallAddressSpace()) return;
  Memory memory(4);
  Child child([&] {
    for (size_t page = 0; page < 777; ++page) memory.Write(page);
  });
  int runs = 0;
  const SweepFigures full =
      Sweep({.serial = 5, .process = IdOf(child.pid()), .peer = IdOf(getpid()), .full = true}, &runs);
  CHECK(full.full);
  CHECK(runs >= 4);
  CHECK(full.regions > 4);
  // Besides the 777 there are a few of the child's stack, libc's data and the like.
  CHECK(full.private_pages >= 777);
  CHECK(full.private_pages < 777 + 300);
  CHECK(full.shared_pages >= memory.pages() - 777);
}

TEST_CASE("live: terabytes that hold nothing are passed over, and no page among them") {
  if (LacksPagemapScan()) return;
  constexpr uint64_t kBytes = 8ull << 40;
  void* map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (Lacks("8 TiB of address space", map != MAP_FAILED, "vm.overcommit_memory or a limit forbids it")) return;
  madvise(map, kBytes, MADV_NOHUGEPAGE);
  const uint64_t start = reinterpret_cast<uint64_t>(map);
  // Within a piece, at both ends of a piece and of the mapping.
  const std::vector<uint64_t> touched = {0, 3ull << 40, (5ull << 40) + 12345 * 4096, kBytes - 1};
  Child child([&] {
    for (const uint64_t at : touched) reinterpret_cast<volatile char*>(start)[at] = 1;
  });
  const std::vector<AddressRange> ranges = {{start, start + kBytes, 0}};
  const FinishedSweep found = SweepOnce({.serial = 5,
                                         .process = IdOf(child.pid()),
                                         .peer = IdOf(getpid()),
                                         .full = true,
                                         .ranges = std::make_shared<const std::vector<AddressRange>>(ranges)});
  REQUIRE(found.ranges.size() == 1);
  CHECK(found.ranges[0].private_pages == touched.size());
  CHECK(found.ranges[0].shared_pages == 0);
  CHECK(found.figures.full);
  CHECK(found.figures.regions >= kBytes / kRegionBytes);
  munmap(map, kBytes);
}

TEST_CASE("live: a process that is gone, or whose pid was reused, has no result") {
  PagemapSweep sweep(ProcFs(), getpagesize(), BootNs());
  pid_t gone;
  {
    Child child;
    gone = child.pid();
    ProcessId other = IdOf(gone);
    other.start_ns += 20'000'000;
    sweep.Add({.serial = 1, .process = other, .full = true});
  }
  sweep.Add({.serial = 2, .process = {gone, 1}, .full = true});
  sweep.Add({.serial = 3, .process = IdOf(getpid()), .regions = {}});
  std::vector<FinishedSweep> finished;
  for (int i = 0; i < 100 && !sweep.idle(); ++i) {
    for (const FinishedSweep& one : sweep.Run(absl::Seconds(1))) finished.push_back(one);
  }
  CHECK(sweep.idle());
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].serial == 3);
  CHECK(finished[0].figures.private_pages == 0);
}

TEST_CASE("live: a run stops at its wall-clock limit, whatever CPU time it has left") {
  Memory memory(3);
  PagemapSweep sweep(ProcFs(), getpagesize(), BootNs());
  sweep.Add({.serial = 1, .process = IdOf(getpid()), .regions = memory.regions()});
  CHECK(sweep.Run(absl::Seconds(100), /*longest=*/absl::Nanoseconds(1)).empty());
  CHECK_FALSE(sweep.idle());
  CHECK(sweep.Run(absl::Seconds(100)).size() == 1);
}

TEST_CASE("live: a sweep of a few regions keeps what is known of the others") {
  Memory memory(3);
  Child child([&] {
    for (size_t page = 0; page < memory.pages(); page += 2) memory.Write(page);
  });
  const ProcessId worker = IdOf(child.pid());
  PagemapSweep sweep(ProcFs(), getpagesize(), BootNs());
  const auto swept = [&](std::vector<uint64_t> regions) {
    sweep.Add({.serial = 1, .process = worker, .regions = std::move(regions)});
    std::vector<FinishedSweep> finished;
    while (finished.empty()) finished = sweep.Run(absl::Seconds(1));
    return finished[0].figures.private_pages;
  };
  const std::vector<uint64_t> regions = memory.regions();
  CHECK(swept({regions[0]}) == 256);
  CHECK(swept({regions[1], regions[2]}) == 768);
  CHECK(swept({regions[1]}) == 768);
  sweep.Forget(1);
  CHECK(swept({regions[1]}) == 256);
}

TEST_CASE("pages are classified as the peer's, diverged or new, like they are counted") {
  CHECK(StateOfPage(kPresent | 9, kPresent | kExclusive | 9, kZero) == PageState::kSame);
  CHECK(StateOfPage(kPresent | 9, kPresent | 8, kZero) == PageState::kDiverged);
  CHECK(StateOfPage(kPresent | 9, 0, kZero) == PageState::kNew);
  CHECK(StateOfPage(kPresent | 9, kPresent | kZero, kZero) == PageState::kNew);
  CHECK(StateOfPage(kPresent | 9, kSwapped | 9, kZero) == PageState::kOther);
  for (const uint64_t own : {uint64_t{0}, kSwapped | 9, kPresent | kFile | 9, kPresent | kZero, kPresent}) {
    CHECK(StateOfPage(own, kPresent | 9, kZero) == PageState::kOther);
  }
}

TEST_CASE("a page that looks diverged may have migrated if others map it, or if it is part of a huge page") {
  const uint64_t copied = kPresent | kExclusive | 9, shared = kPresent | 9, peers = kPresent | 5;
  CHECK_FALSE(MayHaveMigrated(std::vector{copied, peers, uint64_t{0}}, std::vector{peers, peers, peers}, kZero));
  CHECK(MayHaveMigrated(std::vector{copied, shared}, std::vector{peers, peers}, kZero));
  CHECK_FALSE(MayHaveMigrated(std::vector{shared}, std::vector{uint64_t{0}}, kZero));  // new, not diverged
  CHECK_FALSE(MayHaveMigrated(std::vector{shared | kFile}, std::vector{peers | kFile}, kZero));

  std::vector<uint64_t> huge(512, kPresent | kExclusive), other(512, peers);
  for (uint64_t i = 0; i < 512; ++i) huge[i] |= 1024 + i;
  CHECK(MayHaveMigrated(huge, other, kZero));
  huge[511] = 0;  // unmapped, and so mapped in small pages: bit 56 is right
  CHECK_FALSE(MayHaveMigrated(huge, other, kZero));
}

TEST_CASE("live: ranges of a forked child count exactly what it wrote in each") {
  if (Lacks("page frames", PfnsVisible(), "CAP_SYS_ADMIN")) return;
  Memory memory(3);
  Child child([&] {
    for (size_t page = 90; page < 130; ++page) memory.Write(page);
    for (size_t page = 1000; page < 1100; ++page) memory.Write(page);
  });
  const uint64_t start = memory.regions()[0], page_bytes = getpagesize();
  const auto at = [&](uint64_t page) { return start + page * page_bytes; };
  const std::vector<AddressRange> ranges = {{at(0), at(100), 0}, {at(100), at(1536), 1}};
  const FinishedSweep found = SweepOnce({.serial = 5,
                                         .process = IdOf(child.pid()),
                                         .peer = IdOf(getpid()),
                                         .regions = memory.regions(),
                                         .ranges = std::make_shared<const std::vector<AddressRange>>(ranges),
                                         .sample_diverged = 512});
  CHECK(found.ranges == std::vector<RangePages>{{0, 10, 90, 10, 90, 0}, {1, 130, 1306, 130, 1306, 0}});
  CHECK(found.diverged_met == 140);
  REQUIRE(found.diverged_sample.size() == 140);
  CHECK(found.diverged_sample[0] == at(90));
  CHECK(found.diverged_sample[139] == at(1099));
}

}  // namespace cowprof
