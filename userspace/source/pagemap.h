// The truth about sharing, read from /proc/PID/pagemap and independent of the probes: which pages a process still
// shares and which have become its own. Pieces of 2 MiB with pauses, because every read holds the target's
// mmap_lock: one read of a whole 4 GiB worker stalled its mmap by up to 86 ms, pieces by 1.4 ms at most.
// Pages in numbered ranges of addresses (arenas, files, stacks) are counted apart, where a job has any. A *region* in
// this file is a piece of 2 MiB, whatever lies in it.
#ifndef COWPROF_SOURCE_PAGEMAP_H_
#define COWPROF_SOURCE_PAGEMAP_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "model/facts/sample.h"
#include "posix/fd.h"
#include "source/pagemap_entry.h"
#include "source/procfs.h"
#include "source/sweep_spans.h"

namespace cowprof {

// Pages of one region (at most 512 of 4 KiB), by what pagemap says.
struct RegionPages {
  uint16_t private_pages = 0, shared_pages = 0;                // anonymous: exclusively mapped or not
  uint16_t diverged_pages = 0, same_pages = 0, new_pages = 0;  // anonymous, against the peer
  uint16_t zero_pages = 0, swapped_pages = 0;
  bool operator==(const RegionPages&) const = default;
};

// Classifies entries of a pagemap (Documentation/admin-guide/mm/pagemap.rst) against the same addresses of a peer, the
// parent of a worker or a worker of the parent. `peer` may be empty: nothing is known of it. Without CAP_SYS_ADMIN PFNs
// are 0, and FillInFrames puts numbers in their place. Equal PFNs mean shared whatever bit 56 says: for
// PMD-mapped huge pages it is wrong on newer kernels (seen on 6.17 and 6.18, not on 6.12).
RegionPages ClassifyPages(absl::Span<const uint64_t> own, absl::Span<const uint64_t> peer, uint64_t zero_pfn);

// What one page is against the same address of the peer, as ClassifyPages counts it. kOther: absent, swapped, a file's,
// a page of zeroes, or nothing is known of it.
enum class PageState : uint8_t { kOther = 0, kSame = 1, kDiverged = 2, kNew = 3 };
PageState StateOfPage(uint64_t own, uint64_t peer, uint64_t zero_pfn);

// Whether pages of a 2 MiB region that look diverged may still be shared: a page that several processes map and that
// migrates between the reads of the two pagemaps has another frame in each. A page that was copied is mapped by its
// process alone, unless that has children. Bit 56 does not tell that of a huge page. Neither span is empty.
bool MayHaveMigrated(absl::Span<const uint64_t> own, absl::Span<const uint64_t> peer, uint64_t zero_pfn);

// A part of the address space whose pages are counted apart. The number names it in every sweep of a process, also when
// a later list has other ranges.
struct AddressRange {
  uint64_t start = 0, end = 0;  // multiples of the page size
  uint16_t number = 0;          // below kMaxRanges
  bool operator==(const AddressRange&) const = default;
};
inline constexpr uint16_t kMaxRanges = 0xffff;

// Pages of one range, as in SweepFigures.
struct RangePages {
  uint32_t number = 0;
  uint32_t private_pages = 0, shared_pages = 0;
  uint32_t diverged_pages = 0, same_pages = 0, new_pages = 0;
  bool operator==(const RangePages&) const = default;
};

inline constexpr size_t kMaxDivergedSample = 512;

struct SweepJob {
  uint32_t serial = 0;                                      // names the process in what is found
  ProcessId process, peer;                                  // peer.pid 0: none
  bool full = false;                                        // every private mapping; otherwise `regions`
  std::vector<uint64_t> regions;                            // addresses, multiples of 2 MiB
  absl::Duration regions_as_of = absl::InfiniteDuration();  // the sweep does not show what came later in others
  std::shared_ptr<const std::vector<AddressRange>> ranges;  // sorted, none overlaps another; null: none
  size_t sample_diverged = 0;  // how many addresses of diverged pages to keep, kMaxDivergedSample at most
  bool sharing = false;        // note which pages are shared, page by page: copies are counted by it
  bool has_children = false;   // that may map parts of its huge pages: see FillInFrames
};

struct FinishedSweep {
  uint32_t serial = 0;
  SweepFigures figures;
  // Of the whole process, by number, only those with anonymous pages. What was not read by this job stands as it was
  // last read, under the ranges that were given then.
  std::vector<RangePages> ranges;
  // Of this job only. The sample is uniform over the pages that were met, and sorted.
  uint64_t diverged_met = 0;
  std::vector<uint64_t> diverged_sample;
  std::vector<RegionSharing> sharing;  // sorted; of regions with anonymous pages of the process
};

class PagemapSweep {
 public:
  // `page_bytes` of the host; `t0` is CLOCK_BOOTTIME at the start of the recording, ns.
  PagemapSweep(ProcFs proc, uint64_t page_bytes, uint64_t t0_ns);

  void Add(SweepJob job) { jobs_.push_back(std::move(job)); }
  bool idle() const { return jobs_.empty(); }
  absl::Duration cost() const { return cost_; }  // CPU time so far
  // Works for `budget` of CPU time, and for ten times that by the clock (it sleeps most of the time, longer on a busy
  // host), `longest` at most; keeps its place for the next call. A process that ends meanwhile has no result.
  std::vector<FinishedSweep> Run(absl::Duration budget, absl::Duration longest = absl::InfiniteDuration());
  // Drops what is kept and what is planned of a process that ended or got another address space.
  void Forget(uint32_t serial);

 private:
  // What a range has in one 2 MiB region: all that is kept, so that a sweep of a few regions still sums up the process
  // and a region that is read again replaces what it had. 20 bytes: 64 workers of 20 GiB in arenas of 1 MiB take 39 MB.
  struct KeptPages {
    uint32_t region = 0;          // address / 2 MiB
    uint16_t range = kMaxRanges;  // kMaxRanges: in none
    RegionPages pages;
  };
  static_assert(sizeof(KeptPages) == 20);

  // Both pagemaps of one region, read one right after the other.
  struct Look {
    std::vector<uint64_t> own, peer;
    bool has_peer = false;
    std::vector<KeptPages> counts;
    uint64_t diverged_pages = 0;
  };

  struct Progress {
    bool open = false;
    std::vector<AddressSpan> left;  // to read, from `span` on
    size_t span = 0;
    uint64_t pieces = 0;   // of all spans
    bool in_hole = false;  // the last piece had no page
    std::vector<AddressSpan> hugetlb;
    absl::Duration begin, cost;
    std::vector<KeptPages> read;  // by this job so far, sorted by region
    FinishedSweep found;
  };

  Fd OpenPagemap(const ProcessId& process) const;
  bool Open(SweepJob& job);
  bool ReadLook(const SweepJob& job, uint64_t address, Look* look);
  void CountLook(const SweepJob& job, uint64_t address, Look* look) const;
  uint64_t DivergedBefore(uint32_t serial, uint64_t address) const;
  bool ReadPiece(const SweepJob& job, uint64_t address);
  bool Step(const SweepJob& job);
  void NotePages(const SweepJob& job, uint64_t address, const Look& look);
  void Keep(const SweepJob& job);
  FinishedSweep Finish(const SweepJob& job);
  absl::Duration Now() const;

  ProcFs proc_;
  uint64_t page_bytes_, t0_ns_, zero_pfn_;
  bool frames_hidden_, kinds_known_ = true;  // by the kernel: no CAP_SYS_ADMIN; PAGEMAP_SCAN
  std::deque<SweepJob> jobs_;
  absl::Duration cost_;
  Progress progress_;
  Fd own_, peer_;  // pagemaps of jobs_.front()
  std::array<Look, 2> looks_;
  std::mt19937_64 random_;                                       // of the samples; the same in every run
  absl::flat_hash_map<uint32_t, std::vector<KeptPages>> known_;  // by serial; sorted by region
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PAGEMAP_H_
