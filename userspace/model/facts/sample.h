// Everything that cowprof can know at one instant, as plain data. It is all that passes between the sources (which fill
// it), the timeline file (which stores it raw) and the pure functions that judge it. No I/O, no clock, no pointers.
#ifndef COWPROF_MODEL_FACTS_SAMPLE_H_
#define COWPROF_MODEL_FACTS_SAMPLE_H_

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/facts/copy_site.h"
#include "model/facts/count.h"
#include "model/facts/enum_names.h"
#include "model/facts/event.h"
#include "model/facts/framework.h"
#include "model/facts/identity.h"
#include "model/facts/limit.h"
#include "model/facts/process_id.h"
#include "model/saturating.h"

namespace cowprof {

// Monotonic counters of one process since it was first followed. Differences are taken in model/ only.
struct FaultCounts {
  Count faults;                // page faults on user addresses, raised in user or in kernel mode
  Count kernel_faults;         // of these: raised in kernel mode, as by read(2) into user memory
  Count write_protect_faults;  // of `faults`: the page was present and not writable
  Count copies;                // write-protection faults for which the kernel took a page and copied into it
  Count kernel_copies;         // of `copies`: raised in kernel mode
  Count zero_upgrades;         // write-protection faults on the zero page: new memory, nothing was shared. Null: not
                               // told apart from zero_fill_pages
  Count zero_fill_pages;       // pages of new zero-filled private memory (a huge page counts as all of its pages)
  Count file_copies;           // first writes to a page of a private file mapping
  Count shm_pages;             // pages added to shared memory by faults
  Count swap_ins;              // pages read back from swap
  bool operator==(const FaultCounts&) const = default;

  // New private memory, whether its first touch was a write or a read.
  Count zero_fills() const {
    if (!zero_fill_pages) return std::nullopt;
    return *zero_fill_pages + zero_upgrades.value_or(0);
  }

  // Write-protection faults that copied nothing: the last holder took the page over, or a shared mapping became
  // writable. A lower bound if hugetlb pages were copied: one fault, many copies.
  Count reuses() const {
    if (!write_protect_faults || !copies || !zero_upgrades) return std::nullopt;
    return SaturatingSubtract(*write_protect_faults, *copies + *zero_upgrades);
  }
};

// What /proc shows cheaply about one process: status, stat, statm, fd. Pages are of the host's page size.
struct ProcFigures {
  Count anon_pages;   // RssAnon: blind to copy-on-write, since a copy replaces one anonymous page by another
  Count file_pages;   // RssFile
  Count shmem_pages;  // RssShmem
  Count swap_pages;   // VmSwap
  Count virtual_pages;
  Count cpu_ms;       // user + system time
  Count descriptors;  // open file descriptors
  Count threads;
  bool operator==(const ProcFigures&) const = default;
};

// One read of /proc/PID/smaps_rollup; of smaps, where there is shared memory: its pages are not private. Bytes.
struct RollupFigures {
  absl::Duration t;  // when, since the start of the recording
  uint64_t rss_bytes = 0;
  uint64_t pss_bytes = 0;
  uint64_t private_bytes = 0;  // Private_Clean, Private_Dirty, Private_Hugetlb; from smaps: of private mappings
  uint64_t anonymous_bytes = 0;
  uint64_t swap_bytes = 0;
  absl::Duration cost;  // how long the read took; the target's mmap_lock was held for reading that long at most
  bool operator==(const RollupFigures&) const = default;
};

// One finished pass of the paced sweep over /proc/PID/pagemap: the truth about sharing, independent of the probes.
// Counts pages of private mappings that are anonymous now; the zero page is counted separately.
struct SweepFigures {
  absl::Duration begin, end;    // when, since the start of the recording
  bool full = false;            // every private mapping; otherwise only 2 MiB regions that saw faults
  uint64_t private_pages = 0;   // mapped by this process only (pagemap bit 56)
  uint64_t shared_pages = 0;    // mapped by another process too: what a write would still copy
  uint64_t diverged_pages = 0;  // present here and in the parent with another PFN: copied by one of the two
  uint64_t same_pages = 0;      // the same page as in the parent
  uint64_t new_pages = 0;       // present here and not in the parent
  uint64_t zero_pages = 0;
  uint64_t swapped_pages = 0;
  uint64_t regions = 0;  // 2 MiB pieces read
  absl::Duration cost;   // CPU time of the reads
  // What happened between the counters of its sample, which are read first, and some moment after its end. Absent: not
  // known.
  Count later_write_protect_faults;  // no fewer than pages copied meanwhile, except in hugetlb mappings
  Count later_new_pages;             // zero-filled, or first written in a private mapping of a file
  Count anonymous_pages;             // RssAnon and VmSwap at that moment
  bool operator==(const SweepFigures&) const = default;
};

// One process at one instant. `index` identifies it within the recording (0 is the target).
struct ProcessSample {
  int index = 0;
  FaultCounts counts;
  std::optional<CauseCounts> causes;  // sum to counts.copies
  ProcFigures proc;
  std::optional<RollupFigures> rollup;  // present in the sample that follows the read, absent otherwise
  std::optional<SweepFigures> sweep;
  std::optional<VerifyFigures> verify;  // present when it has changed
  std::optional<bool> collector_on;     // Python's cycle collector, as it was last read
  // Of a worker of PyTorch's DataLoader: whether it lives on for the next epoch (persistent_workers). Absent: it is not
  // such a worker, or could not be read yet.
  std::optional<bool> persistent;
  std::optional<LoaderWorker> loader;  // of such a worker, as last read
  std::optional<Framework> framework;  // that it runs under. Absent: none that is known, or not read
  // Of counts.kernel_copies, those without a page fault exception that a sweep found (recorder/gup_copies.h).
  Count gup_copies;
  Count mappings;  // memory mappings (VMAs), if there are many and probes count them
  bool operator==(const ProcessSample&) const = default;
};

// ---- Shared memory ----

enum class SegmentKind { kTorch, kMultiprocessing, kSemaphore, kArray, kFile, kMemfd, kSysV };
template <>
inline constexpr auto kNamesOf<SegmentKind> = NamesFor<SegmentKind>("torch", "multiprocessing", "semaphore", "array",
                                                                    "file", "memfd", "sysv");

// One segment of shared memory: a file of the tmpfs behind /dev/shm, with or without a name, a memfd or a System V
// segment.
struct ShmSegment {
  std::string name;  // without the directory; of memfds and System V segments, what the kernel prints
  SegmentKind kind = SegmentKind::kFile;
  uint64_t device = 0, inode = 0;
  uint64_t bytes = 0;         // that it takes up now
  uint64_t length_bytes = 0;  // that it would take up if all of it were touched
  bool deleted = false;       // has no name any more; freed when the last user closes and unmaps it
  bool lost_name = false;     // it had a lasting name in an earlier look of this recording
  bool lasting_name = false;  // for a second at least; torch's file_descriptor strategy keeps a name for an instant
  pid_t creator = 0;          // pid from the name, in the creator's pid namespace; 0: the name has none
  bool creator_alive = false;
  uint64_t looks_unowned = 0;  // number of whole looks in a row without an owner or a living creator
  std::vector<pid_t> mapped_by, opened_by;
  bool operator==(const ShmSegment&) const = default;
  bool has_owner() const { return !mapped_by.empty() || !opened_by.empty(); }
};

// The shared memory that one process can see, at one instant.
struct ShmSample {
  std::string mount;    // "/dev/shm"
  uint64_t device = 0;  // of that mount: segments of another one (memfd, System V) don't count against its capacity
  Count capacity_bytes;
  uint64_t used_bytes = 0;
  bool whole = false;     // all processes of the host were looked at, not only the followed ones
  uint64_t unlinked = 0;  // segments that lost their name so far, while in use: see ShmSegment.lost_name
  // Processes that may have shared memory and could not be examined, or not wholly, which may include owners; and the
  // most that one of them may have.
  uint64_t unreadable = 0, unreadable_bytes = 0;
  uint64_t unlisted = 0;                    // directory entries beyond those that are examined
  uint64_t omitted = 0, omitted_bytes = 0;  // small segments that are not listed
  std::vector<ShmSegment> segments;         // largest first
  bool operator==(const ShmSample&) const = default;
};

// What was lost, cumulative. All zero on a healthy run.
struct Losses {
  uint64_t events_dropped = 0;       // ring buffer full, or the disk for too long
  uint64_t processes_dropped = 0;    // process table full: counted in the overflow row
  uint64_t unattributed_copies = 0;  // copies of those processes: counted, but for no single process
  uint64_t regions_dropped = 0;      // region table full: the sweep reads such a process whole; or disk full, as above
  uint64_t unclassified_copies = 0;  // cause table full: counted as unknown
  uint64_t unplaced_copies = 0;      // copy site table full: no type and no line
  uint64_t unplaced_new_pages = 0;   // the same of new memory
  uint64_t heaps_dropped = 0;        // forks whose free memory found no room in its table: some of it is not known
  uint64_t pages_dropped = 0;        // copied pages that are missing from the map of pages
  uint64_t threads_refused = 0;  // faults, forks and signals not seen: the kernel had no memory for a thread's state
  uint64_t probes_skipped = 0;   // runs that the kernel may have skipped: each an unseen copy or child
  uint64_t unreadable = 0;       // reads of a living process that failed
  uint64_t records_dropped = 0;  // ticks that could not be written, as on a full disk
  // What may be missing from the counts; the others lack a line, a cause or a moment, and are counted.
  uint64_t lost_events() const { return events_dropped + processes_dropped + threads_refused + probes_skipped; }
  bool operator==(const Losses&) const = default;
};

// Everything known at one tick.
struct Sample {
  absl::Duration t;  // since the start of the recording, on CLOCK_BOOTTIME
  std::vector<Event> events;
  std::vector<ProcessSample> processes;  // the living ones, and once more those that ended since the last tick
  std::vector<LimitSample> limits;
  std::optional<ShmSample> shm;  // not in every sample
  // Where copies happened; not in every sample. Frames and copy sites are numbered as they appear.
  std::vector<Frame> new_frames;
  std::vector<CopySite> new_copy_sites;
  std::vector<CopySiteCount> copy_sites;  // those that changed
  std::vector<GrowthSite> new_growth_sites;
  std::vector<GrowthCount> growth;  // those that changed
  std::vector<PageRun> pages;
  std::vector<NumberedRegion> new_regions;
  std::vector<GrownRegion> grown_regions;
  std::vector<RegionCount> regions;  // those that changed
  std::vector<RegionHeads> heads;
  std::optional<CauseEvidence> cause_evidence;
  Losses losses;
  bool operator==(const Sample&) const = default;
};

// /proc has no figures of a process that is exiting, which may take seconds, and it lets go of its limits one by one.
inline bool TargetIsExiting(const Sample& sample) {
  return std::any_of(sample.processes.begin(), sample.processes.end(),
                     [](const ProcessSample& row) { return row.index == 0 && !row.proc.threads; });
}

// ---- What holds for the whole recording ----

// How exact the count of copies is. No rung of this version samples; the schemas name kSampled, so readers know it.
enum class Exactness { kExact, kUpperBound, kSampled, kPageMap, kUnavailable };
template <>
inline constexpr auto kNamesOf<Exactness> = NamesFor<Exactness>("exact", "upper-bound", "sampled", "page-map",
                                                                "unavailable");

// A way of counting that was considered, and why it was not chosen.
struct RejectedRung {
  std::string rung, reason, remedy;
  bool operator==(const RejectedRung&) const = default;
};

struct RunInfo {
  std::string version;  // of cowprof
  absl::Time started;   // wall clock at t = 0
  std::string kernel;   // uname -r
  uint64_t page_bytes = 4096;
  int cpus = 0;
  double copy_ns = 0;  // what a copy costs on this host without probes, as measured at the start; 0: not measured
  absl::Duration interval;
  std::string rung;  // the one in use
  Exactness exactness = Exactness::kUnavailable;
  std::vector<RejectedRung> rejected;
  std::vector<std::string> without;  // what the user forbade, by --without
  ProcessId target;
  std::string command;          // of the target
  bool started_target = false;  // `cowprof -- CMD`, as opposed to --attach
  // How long the target had lived at t = 0; absent: not known (recordings before this field).
  std::optional<absl::Duration> target_age;
  std::vector<LimitSample> limits;  // of the target, at the start
  bool shm_of_host = false;         // its /dev/shm is the host's; false: a container's own, or not known
  RunIdentity identity;
  bool operator==(const RunInfo&) const = default;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_SAMPLE_H_
