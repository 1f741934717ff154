// Page map entries without CAP_SYS_ADMIN, that is with bit 56 but without frames, as recorded on Linux 6.18 from a
// parent and its children.
#include "source/pagemap_entry.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <vector>

#include "skip.h"
#include "source/pagemap.h"

namespace cowprof {
namespace {

constexpr uint64_t kShared = kPagePresent, kAlone = kPagePresent | kPageExclusive;
constexpr uint64_t kHugeShared = kShared | kPageHuge, kHugeAlone = kAlone | kPageHuge;
constexpr uint64_t kZero = kPagePresent | kPageOfZeroes, kFile = kPagePresent | kPageOfFile;
constexpr uint64_t kAddress = 0x7f0000000000;

struct Seen {
  PageState state;
  RegionSharing sharing;
  RegionPages counts;
};

Seen See(uint64_t own, uint64_t peer, bool huge_is_shared = false) {
  std::vector<uint64_t> owns = {own}, peers = {peer};
  FillInFrames(kAddress / 4096, huge_is_shared, absl::MakeSpan(owns), absl::MakeSpan(peers));
  return {StateOfPage(owns[0], peers[0], kStandInForZero), SharingOf(kAddress, owns, peers, kStandInForZero),
          ClassifyPages(owns, peers, kStandInForZero)};
}

}  // namespace

TEST_CASE("without frames, a page that is exclusive on neither side is the same page") {
  const Seen seen = See(kShared, kShared);
  CHECK(seen.state == PageState::kSame);
  CHECK(seen.sharing.shared[0]);
  CHECK(seen.sharing.peer[0]);
  CHECK_FALSE(seen.sharing.peer_exclusive[0]);
  CHECK(seen.counts.shared_pages == 1);
}

TEST_CASE("without frames, a page that is exclusive on one side has diverged") {
  CHECK(See(kAlone, kShared).state == PageState::kDiverged);
  CHECK(See(kAlone, kShared).sharing.exclusive[0]);
  CHECK(See(kAlone, kAlone).sharing.peer_exclusive[0]);
  const Seen left = See(kShared, kAlone);  // the parent copied it; others share the old page with this one
  CHECK(left.state == PageState::kDiverged);
  CHECK(left.sharing.shared[0]);
  CHECK(left.sharing.peer_exclusive[0]);
}

TEST_CASE("without frames, zero pages and file pages are not copies") {
  CHECK(See(kAlone, kZero).state == PageState::kNew);
  CHECK_FALSE(See(kAlone, kZero).sharing.peer[0]);
  CHECK(See(kZero, kZero).state == PageState::kOther);
  CHECK(See(kZero, kZero).counts.zero_pages == 1);
  CHECK_FALSE(See(kZero, kShared).sharing.shared[0]);
  CHECK(See(kAlone, kFile).state == PageState::kNew);
  CHECK_FALSE(See(kAlone, kFile).sharing.peer[0]);
  CHECK(See(kFile, kShared).state == PageState::kOther);
  CHECK(See(kAlone, 0).state == PageState::kNew);
  CHECK(See(kPageSwapped, kShared).counts.swapped_pages == 1);
}

TEST_CASE("if one side maps a huge page in small pages, that side decides") {
  // The worker copied the first 4 KiB: its parent's huge page shows all 512 as exclusive.
  CHECK(See(kAlone, kHugeAlone).sharing.exclusive[0]);
  CHECK_FALSE(See(kAlone, kHugeShared).sharing.peer_exclusive[0]);
  const Seen untouched = See(kShared, kHugeAlone);
  CHECK(untouched.state == PageState::kSame);
  CHECK_FALSE(untouched.sharing.peer_exclusive[0]);
  // The parent copied: it maps small pages now, the worker still maps the huge page.
  CHECK(See(kHugeAlone, kShared).state == PageState::kSame);
  CHECK(See(kHugeAlone, kAlone).state == PageState::kDiverged);
  CHECK(See(kHugeShared, kHugeShared).state == PageState::kSame);
}

TEST_CASE("a parent's huge page counts as shared if its children may map parts of it") {
  std::vector<uint64_t> own = {kHugeAlone};
  FillInFrames(1000, /*huge_is_shared=*/true, absl::MakeSpan(own), {});
  CHECK(ClassifyPages(own, {}, kStandInForZero).shared_pages == 1);
  own = {kHugeAlone};
  FillInFrames(1000, /*huge_is_shared=*/false, absl::MakeSpan(own), {});
  CHECK(ClassifyPages(own, {}, kStandInForZero).private_pages == 1);
}

TEST_CASE("what a host never shows is distinguished from a single failure") {
  std::vector<uint64_t> entries(4);
  CHECK(ScanKinds(/*pagemap=*/-1, kAddress, 4096, absl::MakeSpan(entries)) == KindsScan::kFailed);
  const int no_pagemap = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(ScanKinds(no_pagemap, kAddress, 4096, absl::MakeSpan(entries)) == KindsScan::kUnknown);
  uint64_t first = 0;
  CHECK(FindPage(/*pagemap=*/-1, kAddress, 2 * kAddress, &first) == KindsScan::kFailed);
  CHECK(FindPage(no_pagemap, kAddress, 2 * kAddress, &first) == KindsScan::kUnknown);
  CHECK(first == 0);
  close(no_pagemap);
}

TEST_CASE("live: the first page of a range is found, be it written or only read") {
  if (LacksPagemapScan()) return;
  const uint64_t page_bytes = getpagesize(), pages = 5000, bytes = pages * page_bytes;
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(map != MAP_FAILED);
  madvise(map, bytes, MADV_NOHUGEPAGE);
  const uint64_t begin = reinterpret_cast<uint64_t>(map);
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  REQUIRE(pagemap >= 0);
  const auto first_from = [&](uint64_t page) {
    uint64_t first = 0;
    const KindsScan scan = FindPage(pagemap, begin + page * page_bytes, begin + bytes, &first);
    return scan == KindsScan::kDone ? (first - begin) / page_bytes : UINT64_MAX;
  };
  CHECK(first_from(0) == pages);
  volatile char* memory = static_cast<char*>(map);
  memory[777 * page_bytes] = 1;
  static_cast<void>(memory[4999 * page_bytes]);  // a page of zeroes
  CHECK(first_from(0) == 777);
  CHECK(first_from(777) == 777);
  CHECK(first_from(778) == 4999);
  madvise(static_cast<char*>(map) + 777 * page_bytes, page_bytes, MADV_DONTNEED);
  CHECK(first_from(0) == 4999);
  close(pagemap);
  munmap(map, bytes);
}

TEST_CASE("with frames, equal ones are the same page whatever bit 56 says") {
  const std::vector<uint64_t> own = {kAlone | 9, kAlone | 9, kShared | 9}, peer = {kAlone | 9, kAlone | 8, kAlone | 8};
  const RegionSharing sharing = SharingOf(kAddress, own, peer, /*zero_pfn=*/77);
  CHECK(sharing.shared[0]);
  CHECK_FALSE(sharing.peer_exclusive[0]);
  CHECK(sharing.exclusive[1]);
  CHECK(sharing.peer_exclusive[1]);
  CHECK(sharing.shared[2]);
  CHECK(sharing.peer_exclusive[2]);
}

}  // namespace cowprof
