// The truth about sharing, read from /proc/PID/pagemap and independent of the probes: which pages a process still
// shares and which have become its own. Pieces of 2 MiB with a pause between them, because every read holds the
// target's mmap_lock: one read of a whole 4 GiB worker stalled its mmap by up to 86 ms, pieces by 1.4 ms at most.
// Called by the collector.
#ifndef COWPROF_SOURCE_PAGEMAP_H_
#define COWPROF_SOURCE_PAGEMAP_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "model/sample.h"
#include "posix/fd.h"
#include "source/procfs.h"

namespace cowprof {

inline constexpr uint64_t kRegionBytes = 2 << 20;

// Pages of one region (at most 512 of 4 KiB), by what pagemap says.
struct RegionPages {
  uint16_t private_pages = 0, shared_pages = 0;                // anonymous: exclusively mapped or not
  uint16_t diverged_pages = 0, same_pages = 0, new_pages = 0;  // anonymous, against the peer
  uint16_t zero_pages = 0, swapped_pages = 0;
  bool operator==(const RegionPages&) const = default;
};

// Classifies entries of a pagemap (Documentation/admin-guide/mm/pagemap.rst) against the same addresses of a peer, the
// parent of a worker or a worker of the parent. `peer` may be empty: nothing is known of it. PFNs are 0 without
// CAP_SYS_ADMIN; then only bit 56 tells. Equal PFNs mean shared whatever bit 56 says: since 6.17 it is wrong for
// PMD-mapped huge pages.
RegionPages ClassifyPages(absl::Span<const uint64_t> own, absl::Span<const uint64_t> peer, uint64_t zero_pfn);

struct SweepJob {
  int index = 0;                  // of the process in the recording
  ProcessId process, peer;        // peer.pid 0: none
  bool full = false;              // every private mapping; otherwise `regions`
  std::vector<uint64_t> regions;  // addresses, multiples of 2 MiB; filled from maps if full
};

struct FinishedSweep {
  int index = 0;
  SweepFigures figures;
};

class PagemapSweep {
 public:
  // `page_bytes` of the host; `t0` is CLOCK_BOOTTIME at the start of the recording, ns.
  PagemapSweep(ProcFs proc, uint64_t page_bytes, uint64_t t0_ns);

  void Add(SweepJob job) { jobs_.push_back(std::move(job)); }
  bool idle() const { return jobs_.empty(); }
  absl::Duration cost() const { return cost_; }  // CPU time so far
  // Works for `budget` of CPU time, and for ten times that by the clock (it sleeps most of the time, longer on a busy
  // host); keeps its place for the next call. A process that ends meanwhile has no result.
  std::vector<FinishedSweep> Run(absl::Duration budget);
  // Drops what is kept and what is planned of a process that ended or got another address space.
  void Forget(int index);

 private:
  struct Progress {
    bool open = false;
    size_t next = 0;
    absl::Duration begin, cost;
  };
  Fd OpenPagemap(const ProcessId& process) const;
  bool Open(SweepJob& job);
  bool ReadPiece(const SweepJob& job, uint64_t address);
  SweepFigures Sum(const SweepJob& job) const;
  absl::Duration Now() const;

  ProcFs proc_;
  uint64_t page_bytes_, t0_ns_, zero_pfn_;
  std::deque<SweepJob> jobs_;
  absl::Duration cost_;
  Progress progress_;
  Fd own_, peer_;  // pagemaps of jobs_.front()
  std::vector<uint64_t> own_entries_, peer_entries_;
  // The last known state of every region that was ever read, so that a sweep of a few regions still sums up the
  // process.
  absl::flat_hash_map<int, absl::flat_hash_map<uint32_t, RegionPages>> known_;
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PAGEMAP_H_
