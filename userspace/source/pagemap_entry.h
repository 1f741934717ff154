// Which pages two processes share, without CAP_SYS_ADMIN, where the kernel hides page frames: combines bit 56 of a
// pagemap entry ("mapped by this process only") with the kinds of pages that PAGEMAP_SCAN knows. Pure but for
// ScanKinds and FindPage.
#ifndef COWPROF_SOURCE_PAGEMAP_ENTRY_H_
#define COWPROF_SOURCE_PAGEMAP_ENTRY_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace cowprof {

// Of an entry of a pagemap (Documentation/admin-guide/mm/pagemap.rst).
inline constexpr uint64_t kPagePresent = 1ull << 63;  // in memory
inline constexpr uint64_t kPageSwapped = 1ull << 62;
inline constexpr uint64_t kPageOfFile = 1ull << 61;  // or shared memory
inline constexpr uint64_t kPageExclusive = 1ull << 56;
inline constexpr uint64_t kPageFrame = (1ull << 55) - 1;
// 0: absent, or hidden.
inline uint64_t PfnOf(uint64_t entry) { return entry & kPagePresent ? entry & kPageFrame : 0; }
// Bits of an entry that the kernel leaves at 0: what ScanKinds found.
inline constexpr uint64_t kPageOfZeroes = 1ull << 60, kPageHuge = 1ull << 59;

// What FillInFrames gives to a page of zeroes. The first pages of an address space are never mapped, so no other page
// gets it.
inline constexpr uint64_t kStandInForZero = 4;

// Marks the entries of the pages from `address` on that are pages of zeroes or parts of a huge page which this process
// maps as one. Unmarked, a page of zeroes looks like a shared page, and bit 56 is all that is known of a huge page.
// kUnknown: this host tells it of no process (Linux before 6.7, where bit 56 is also right for huge pages; a filter of
// system calls). kFailed: not of this process now.
enum class KindsScan { kDone, kFailed, kUnknown };
KindsScan ScanKinds(int pagemap, uint64_t address, uint64_t page_bytes, absl::Span<uint64_t> entries);

// The first page of [begin, end), both multiples of the page size, that is in memory or swapped out; `end` if there is
// none. Holds mmap_lock meanwhile. Sets *first only if kDone; the others as above.
KindsScan FindPage(int pagemap, uint64_t begin, uint64_t end, uint64_t* first);

// Gives entries without frames numbers that stand for them, equal where both processes map the same page, so that
// StateOfPage and ClassifyPages can compare them as frames. `first_page` is the number of the first page; `peer` is
// empty or as long as `own`. Corrects bit 56 where it is wrong: on newer kernels (seen on 6.17 and 6.18, not on 6.12),
// for a huge page that is mapped as one, it speaks of the first 4 KiB, which another process may have copied. The side
// that maps it in small pages is right; if neither does, and `huge_is_shared`, it counts as shared.
void FillInFrames(uint64_t first_page, bool huge_is_shared, absl::Span<uint64_t> own, absl::Span<uint64_t> peer);

inline constexpr size_t kPagesOfRegion = 512;
using PageBits = std::bitset<kPagesOfRegion>;

// The anonymous pages of 2 MiB of a process: page i is bit i.
struct RegionSharing {
  uint64_t address = 0;
  PageBits shared, exclusive;     // it maps the page with others; it alone
  PageBits peer, peer_exclusive;  // the peer has an anonymous page there; and maps that alone
  bool hugetlb = false;           // one fault copies all of it
  bool operator==(const RegionSharing&) const = default;
};
// Of at most kPagesOfRegion entries, with frames or numbers that stand for them.
RegionSharing SharingOf(uint64_t address, absl::Span<const uint64_t> own, absl::Span<const uint64_t> peer,
                        uint64_t zero_pfn);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PAGEMAP_ENTRY_H_
