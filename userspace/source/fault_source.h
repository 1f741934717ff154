// How page faults and the process tree enter: the seam between the collector and the ways of counting, with probes
// (bpf_faults) or from the page map alone (pagemap_faults). A source follows a target and everything it forks. It never
// judges a figure.
#ifndef COWPROF_SOURCE_FAULT_SOURCE_H_
#define COWPROF_SOURCE_FAULT_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cowprof.h"
#include "model/facts/sample.h"
#include "source/pagemap.h"

namespace cowprof {

// One followed process as the source knows it at a look.
struct FollowedProcess {
  ProcessId id;
  ProcessId parent;  // the process that forked it; all zero for the target
  Origin origin = Origin::kForked;
  bool vforked = false;            // it had its parent's memory itself, and no copy of it, at the fork
  uint32_t serial = 0;             // names it in the rows below
  uint32_t image = 0;              // the program it runs, as LearnImage() named it; 0: not learned. Inherited at a fork
  uint64_t forked_ns = 0;          // CLOCK_BOOTTIME; 0 where it was there at attach
  uint64_t exited_ns = 0;          // CLOCK_BOOTTIME; 0 while it lives
  std::optional<int> exit_status;  // as wait(2) reports it; absent: it lives, or nobody says how it ended
  std::string comm;
};

// An event as the source saw it. The collector fills in Event::t and Event::index, and names what only it can name.
struct SeenEvent {
  ProcessId process;     // start_ns 0: known by pid only
  uint64_t time_ns = 0;  // CLOCK_BOOTTIME
  Event event;
  // SignalDelivered, OomVictim: what names are still to be made of.
  uint64_t ip = 0;
  std::vector<cowprof_frame> frames;  // the innermost ones, innermost first
  uint64_t cgroup = 0;                // inode of its directory
};

// Which processes are followed, and what happened since the look before.
struct TreeLook {
  // By time of fork, parents before children. One that has ended is reported once more and then forgotten.
  std::vector<FollowedProcess> processes;
  std::vector<SeenEvent> events;  // ProcessExeced, SignalSent, SignalDelivered, OomVictim
};

// Copies by one instruction of one process onto one kind of thing. Cumulative; each copy stands in one row.
struct CauseRow {
  uint32_t serial = 0, image = 0;
  cowprof_shape shape = COWPROF_SHAPE_UNREAD;
  bool told = false;  // by the instruction, see SiteVerdict; otherwise memory was read
  bool sampled =
      false;        // the memory of a sample of the pages was read, after the copies: nothing is known of the writes
  uint64_t ip = 0;  // 0: unknown
  uint64_t copies = 0;
};

// Copies that were looked at with their stack: a sample, or all of them. Cumulative. With COWPROF_SHAPE_NEW, a sample
// of new zero-filled pages instead: `copies` is their number, and only `stack` tells where.
struct CopySiteRow {
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

// What was counted of the processes of a look.
struct Pull {
  absl::flat_hash_map<uint32_t, FaultCounts> counts;  // by serial
  absl::flat_hash_map<uint32_t, uint64_t> mappings;   // by serial; of those that have many
  uint64_t most_mappings = 0;                         // of one process; 0: not known
  std::vector<CauseRow> causes;
  std::vector<CopiedPage> pages;      // since the last pull, where LogPages() is on; a page may be told twice
  Losses losses;                      // all but unreadable and records_dropped
  std::vector<FinishedSweep> sweeps;  // of a source that counts by sweeps; those of probes make none
  absl::Duration sweep_cost;          // CPU time of all sweeps so far
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

// What a source that counts by sweeps needs to know about the memory of the processes of its last look. `t` is the time
// since the start of the recording.
class PageReader {
 public:
  virtual ~PageReader() = default;
  // The ranges whose pages a sweep of the process counts apart; null: none.
  virtual std::shared_ptr<const std::vector<AddressRange>> RangesOf(uint32_t serial, absl::Duration t) = 0;
  // Explains a random sample of `copied`, pages that the process is known to have copied; the others are taken to be
  // like them. Empty: nothing can be said of them. nullopt: not now.
  virtual std::optional<std::vector<ExplainedPage>> Explain(uint32_t serial, const std::vector<uint64_t>& copied,
                                                            absl::Duration t) = 0;
};

struct PullRequest {
  absl::Duration t;         // of the look, since the start of the recording
  absl::Duration interval;  // since the last pull, or a tick's if that is less: bounds what this one may cost
  bool last = false;        // the recording ends with this pull
  PageReader& reader;
};

class FaultSource {
 public:
  virtual ~FaultSource() = default;

  // Starts counting for `target` and all its descendants, living and to come. None is missed between the look at the
  // process tree and the first probe, and none is taken twice. Errors say what was attempted and what to do.
  virtual absl::Status Follow(pid_t target) = 0;
  // Call in turn. In between, the caller takes note of processes that came, ended or called exec. `last`: no other look
  // follows, so it misses nothing that was counted before.
  virtual absl::StatusOr<TreeLook> LookAtTree(bool last) = 0;
  virtual absl::StatusOr<Pull> PullCounts(const PullRequest& request) = 0;
  // As of now and by serial, of what the last look counted: `copies` is missing from it. Empty: only a pull counts.
  virtual absl::flat_hash_map<uint32_t, FaultCounts> CountFaultsNow() { return {}; }
  // Of living processes: all of them, as long as a pull tells no more Losses::regions_dropped than the one before. Then
  // any process of that look may lack some.
  virtual absl::StatusOr<std::vector<TouchedRegion>> PullRegions() = 0;
  // Of living processes, and once more of those that ended.
  virtual absl::StatusOr<std::vector<CopySiteRow>> PullCopySites() = 0;
  // Whether PullCopySites() has new rows or many new stacks, or a process called exec, since the last call with
  // `again`, which also asks to be woken up for the next.
  virtual bool TakeNews(bool again) = 0;
  // Of a row that is new in the last PullCopySites() or the one before. Innermost first; empty: not there (any more).
  virtual std::vector<cowprof_frame> ReadStack(uint64_t stack) = 0;
  // From now on `serial` and what it forks are read by `facts`, until it calls exec.
  virtual absl::Status LearnImage(uint32_t serial, uint32_t image, const cowprof_image& facts) = 0;
  // The same of its malloc: children that are forked from now on have their parent's free memory noted at the fork.
  virtual absl::Status LearnMalloc(uint32_t /*serial*/, const cowprof_malloc& /*facts*/) { return absl::OkStatus(); }
  // The process does not run what it was taught last: it has called exec, perhaps before it was taught, or inherited
  // that from a parent that had. `living`: it has not ended.
  virtual void Unlearn(uint32_t /*serial*/, bool /*living*/) {}
  virtual void ForgetImage(uint32_t image) = 0;  // no process runs it any more
  virtual absl::Status TrustSites(const std::vector<SiteVerdict>& verdicts) = 0;
  virtual void LogPages(bool on) = 0;
  // Wakes up for the next fork, once.
  virtual void WakeAtFork() {}
  // Readable when an event is worth waking up for before the next tick, unless there are too many of them, as where
  // programs end all the time; -1: none.
  virtual int wake_fd() const = 0;
  // Readable when one is worth it in any case; -1: not told apart.
  virtual int urgent_wake_fd() const { return -1; }
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_FAULT_SOURCE_H_
