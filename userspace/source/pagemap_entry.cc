#include "source/pagemap_entry.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>

namespace cowprof {
namespace {

// include/uapi/linux/fs.h since 6.7; Debian 12's headers are older.
struct ScanRange {
  uint64_t start, end, categories;
};
struct ScanArguments {
  uint64_t size, flags, start, end, walk_end, ranges, ranges_size, max_pages;
  uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
constexpr uint64_t kScanPresent = 1 << 3, kScanSwapped = 1 << 4, kScanZero = 1 << 5, kScanHuge = 1 << 6;
constexpr unsigned long kScan = _IOWR('f', 16, ScanArguments);

// Of a failed scan.
KindsScan Failure() {
  const bool unknown = errno == ENOTTY || errno == EINVAL || errno == ENOSYS || errno == EPERM;
  return unknown ? KindsScan::kUnknown : KindsScan::kFailed;
}

bool IsAnonymous(uint64_t entry, uint64_t zero_pfn) {
  return (entry & kPagePresent) && !(entry & kPageOfFile) && (entry & kPageFrame) != zero_pfn;
}

uint64_t WithFrame(uint64_t entry, uint64_t frame, bool exclusive) {
  return (entry & ~(kPageFrame | kPageExclusive)) | frame | (exclusive ? kPageExclusive : 0);
}

bool IsData(uint64_t entry) { return (entry & kPagePresent) && !(entry & (kPageOfFile | kPageOfZeroes)); }

}  // namespace

KindsScan ScanKinds(int pagemap, uint64_t address, uint64_t page_bytes, absl::Span<uint64_t> entries) {
  std::array<ScanRange, 64> ranges;
  const uint64_t end = address + entries.size() * page_bytes;
  for (uint64_t at = address; at < end;) {
    ScanArguments scan = {.size = sizeof(scan),
                          .start = at,
                          .end = end,
                          .ranges = reinterpret_cast<uint64_t>(ranges.data()),
                          .ranges_size = ranges.size(),
                          .category_anyof_mask = kScanZero | kScanHuge,
                          .return_mask = kScanZero | kScanHuge};
    const int found = ioctl(pagemap, kScan, &scan);
    if (found < 0) return Failure();
    if (scan.walk_end <= at) return KindsScan::kFailed;
    for (const ScanRange& range : absl::MakeConstSpan(ranges).subspan(0, found)) {
      const uint64_t marks =
          (range.categories & kScanZero ? kPageOfZeroes : 0) | (range.categories & kScanHuge ? kPageHuge : 0);
      for (uint64_t page = range.start; page < range.end; page += page_bytes)
        entries[(page - address) / page_bytes] |= marks;
    }
    at = scan.walk_end;
  }
  return KindsScan::kDone;
}

KindsScan FindPage(int pagemap, uint64_t begin, uint64_t end, uint64_t* first) {
  ScanRange range = {};
  ScanArguments scan = {.size = sizeof(scan),
                        .start = begin,
                        .end = end,
                        .ranges = reinterpret_cast<uint64_t>(&range),
                        .ranges_size = 1,
                        .max_pages = 1,
                        .category_anyof_mask = kScanPresent | kScanSwapped,
                        .return_mask = kScanPresent | kScanSwapped};
  const int found = ioctl(pagemap, kScan, &scan);
  if (found < 0) return Failure();
  if (found == 0 && scan.walk_end < end) return KindsScan::kFailed;
  if (found > 0 && (range.start < begin || range.start >= end)) return KindsScan::kFailed;
  *first = found > 0 ? range.start : end;
  return KindsScan::kDone;
}

void FillInFrames(uint64_t first_page, bool huge_is_shared, absl::Span<uint64_t> own, absl::Span<uint64_t> peer) {
  for (size_t i = 0; i < own.size(); ++i) {
    uint64_t none = 0;
    uint64_t &mine = own[i], &theirs = peer.empty() ? none : peer[i];
    bool exclusive = mine & kPageExclusive, peer_exclusive = theirs & kPageExclusive;
    const bool both = IsData(mine) && IsData(theirs);
    if (both && (mine & kPageHuge) && !(theirs & kPageHuge)) exclusive &= peer_exclusive;
    if (both && (theirs & kPageHuge) && !(mine & kPageHuge)) peer_exclusive &= exclusive;
    if (!both && (mine & kPageHuge) && huge_is_shared) exclusive = false;
    const bool same = both && !exclusive && !peer_exclusive;
    const uint64_t frames = 4 * (first_page + i);  // four for each page
    const auto fill = [&](uint64_t* entry, uint64_t frame, bool alone) {
      if (!(*entry & kPagePresent)) return;
      *entry = WithFrame(*entry, *entry & kPageOfZeroes ? kStandInForZero : frame, alone);
    };
    fill(&mine, frames + (same ? 3 : 1), exclusive);
    fill(&theirs, frames + (same ? 3 : 2), peer_exclusive);
  }
}

RegionSharing SharingOf(uint64_t address, absl::Span<const uint64_t> own, absl::Span<const uint64_t> peer,
                        uint64_t zero_pfn) {
  RegionSharing sharing = {.address = address};
  for (size_t i = 0; i < std::min(own.size(), kPagesOfRegion); ++i) {
    const uint64_t theirs = i < peer.size() ? peer[i] : 0;
    const bool peer_has = IsAnonymous(theirs, zero_pfn);
    const bool same = peer_has && (own[i] & kPagePresent) && (own[i] & kPageFrame) == (theirs & kPageFrame);
    sharing.peer[i] = peer_has;
    sharing.peer_exclusive[i] = peer_has && (theirs & kPageExclusive) && !same;
    if (!IsAnonymous(own[i], zero_pfn)) continue;
    const bool exclusive = (own[i] & kPageExclusive) && !same;
    sharing.exclusive[i] = exclusive;
    sharing.shared[i] = !exclusive;
  }
  return sharing;
}

}  // namespace cowprof
