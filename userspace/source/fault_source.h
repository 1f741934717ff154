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
#include "model/sample.h"

namespace cowprof {

// One followed process as the source knows it at the pull.
struct FollowedProcess {
  ProcessId id;
  ProcessId parent;  // who forked it; all zero for the target
  Origin origin = Origin::kForked;
  uint32_t serial = 0;     // names it in TouchedRegion
  uint64_t forked_ns = 0;  // CLOCK_BOOTTIME; 0 where it was there at attach
  uint64_t exited_ns = 0;  // CLOCK_BOOTTIME; 0 while it lives
  int exit_status = 0;     // as wait(2) reports it
  std::string comm;
  FaultCounts counts;
};

// An event as the source saw it; `t`, `index` and `parent` of Event are left for the collector.
struct SeenEvent {
  ProcessId process;     // start_ns 0: known by pid only
  uint64_t time_ns = 0;  // CLOCK_BOOTTIME
  Event event;
};

struct Pull {
  std::vector<FollowedProcess>
      processes;  // by time of fork, parents before children; one that ended is reported once more and then forgotten
  std::vector<SeenEvent> events;  // kExec, kSignalSent, kSignalDelivered, kOomVictim
  Losses losses;                  // all but unreadable and records_dropped
};

// A 2 MiB region in which a process got pages of its own: copies or new memory.
struct TouchedRegion {
  uint32_t serial = 0;
  uint64_t address = 0;  // bytes, multiple of 2 MiB
};

class FaultSource {
 public:
  virtual ~FaultSource() = default;

  // Starts counting for `target` and all its descendants, living and to come. None is missed between the look at the
  // process tree and the first probe, and none is taken twice. Errors say what was attempted and what to do.
  virtual absl::Status Follow(pid_t target) = 0;
  virtual absl::StatusOr<Pull> PullCounts() = 0;
  // Of living processes; to be called every few seconds, since it also makes room.
  virtual absl::StatusOr<std::vector<TouchedRegion>> PullRegions() = 0;
  // Readable when an event is worth waking up for before the next tick; -1: none.
  virtual int wake_fd() const = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_FAULT_SOURCE_H_
