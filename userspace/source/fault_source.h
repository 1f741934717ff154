// How page faults and the process tree enter: the seam between the collector and the ways of counting. bpf_faults
// implements it with probes. An implementation follows a target and everything it forks; it never judges a figure.
#ifndef COWPROF_SOURCE_FAULT_SOURCE_H_
#define COWPROF_SOURCE_FAULT_SOURCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cowprof.h"
#include "model/sample.h"

namespace cowprof {

// One followed process as the source knows it at the pull.
struct FollowedProcess {
  ProcessId id;
  ProcessId parent;  // who forked it; all zero for the target
  Origin origin = Origin::kForked;
  uint32_t serial = 0;     // names it in the rows below
  uint32_t image = 0;      // program that it runs, as LearnImage() named it; 0: not learned. Inherited at a fork
  uint64_t forked_ns = 0;  // CLOCK_BOOTTIME; 0 where it was there at attach
  uint64_t exited_ns = 0;  // CLOCK_BOOTTIME; 0 while it lives
  std::optional<int> exit_status;  // as wait(2) reports it; absent: it lives, or nobody says how it ended
  std::string comm;
  FaultCounts counts;
};

// An event as the source saw it; `t`, `index` and `parent` of Event are left for the collector.
struct SeenEvent {
  ProcessId process;     // start_ns 0: known by pid only
  uint64_t time_ns = 0;  // CLOCK_BOOTTIME
  Event event;
  // What names are still to be made of: kSignalDelivered, kOomVictim.
  uint64_t ip = 0;
  std::vector<cowprof_frame> frames;  // the innermost ones, innermost first
  uint64_t cgroup = 0;                // inode of its directory
};

// Copies by one instruction of one process onto one kind of thing. Cumulative; each copy stands in one row.
struct CauseRow {
  uint32_t serial = 0, image = 0;
  cowprof_shape shape = COWPROF_SHAPE_UNREAD;
  bool told = false;  // by the instruction, see SiteVerdict; otherwise memory was read
  uint64_t ip = 0;
  uint64_t copies = 0;
};

// Copies that were looked at with their stack: a sample, or all of them. Cumulative.
struct PlaceRow {
  uint32_t serial = 0, image = 0;
  cowprof_shape shape = COWPROF_SHAPE_UNREAD;
  uint64_t ip = 0;
  uint64_t type = 0;   // address of the type of the object that was written; 0: none
  uint64_t stack = 0;  // for ReadStack(); 0: no Python frame
  uint64_t copies = 0, samples = 0,
           squares = 0;  // that the samples stand for; their number; sum of the squares of the former
};

// What an instruction always writes: then memory is not read at each of its copies. UNREAD: look each time (again).
struct SiteVerdict {
  uint64_t ip = 0;
  uint32_t image = 0;
  cowprof_shape shape = COWPROF_SHAPE_UNREAD;
};

struct CopiedPage {
  uint32_t serial = 0;
  uint64_t address = 0;
  cowprof_shape shape = COWPROF_SHAPE_UNREAD;
};

struct Pull {
  std::vector<FollowedProcess>
      processes;  // by time of fork, parents before children; one that ended is reported once more and then forgotten
  std::vector<SeenEvent> events;  // kExec, kSignalSent, kSignalDelivered, kOomVictim
  std::vector<CauseRow> causes;   // of `processes`
  std::vector<CopiedPage> pages;  // since the last pull, where LogPages() is on; a page may be told twice
  Losses losses;                  // all but unreadable and records_dropped
};

// A 2 MiB region in which a process got pages of its own: copies or new memory.
struct TouchedRegion {
  uint32_t serial = 0;
  uint64_t address = 0;  // bytes, multiple of 2 MiB
};

// A copied page that was read, and what the bytes say of its first write.
struct ExplainedPage {
  uint64_t address = 0;
  cowprof_shape shape = COWPROF_SHAPE_UNREAD;
  uint64_t type = 0;  // of an object that was written; 0: none
};

struct FinishedSweep;  // source/pagemap.h

class FaultSource {
 public:
  virtual ~FaultSource() = default;

  // Starts counting for `target` and all its descendants, living and to come. None is missed between the look at the
  // process tree and the first probe, and none is taken twice. Errors say what was attempted and what to do.
  virtual absl::Status Follow(pid_t target) = 0;
  virtual absl::StatusOr<Pull> PullCounts() = 0;
  // Of living processes; to be called every few seconds, since it also makes room.
  virtual absl::StatusOr<std::vector<TouchedRegion>> PullRegions() = 0;
  // Of living processes, and once more of those that ended.
  virtual absl::StatusOr<std::vector<PlaceRow>> PullPlaces() = 0;
  // Whether PullPlaces() has rows that it did not have before, or a process called exec. `again`: wake up for the next.
  virtual bool TakeNews(bool again) = 0;
  // Innermost first. To be asked for once: it may make room for others.
  virtual std::vector<cowprof_frame> ReadStack(uint64_t stack) = 0;
  // From now on `serial` and what it forks are read by `facts`, until it calls exec.
  virtual absl::Status LearnImage(uint32_t serial, uint32_t image, const cowprof_image& facts) = 0;
  virtual void ForgetImage(uint32_t image) = 0;  // no process runs it any more
  virtual absl::Status TrustSites(const std::vector<SiteVerdict>& verdicts) = 0;
  virtual void LogPages(bool on) = 0;
  // Readable when an event is worth waking up for before the next tick; -1: none.
  virtual int wake_fd() const = 0;

  // ---- Where the page map is all there is ----

  // Copies are known from sweeps alone, which the collector makes of every followed process and hands in after
  // PullCounts(). If not, none of the following is called.
  virtual bool counts_by_sweep() const { return false; }
  // A sweep with `sharing`. Returns pages that the process is known to have copied and that were not explained yet.
  virtual std::vector<uint64_t> TakeSweep(uint32_t, const FinishedSweep&) { return {}; }
  // Of a sample of the pages that the last TakeSweep() of this process returned: the others are taken to be like them.
  // Empty: nothing can be said of them.
  virtual void Explain(uint32_t, const std::vector<ExplainedPage>&) {}
  // Adds to a pull what the sweeps since found: counts, causes and pages.
  virtual void AddSwept(Pull*) {}
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_FAULT_SOURCE_H_
