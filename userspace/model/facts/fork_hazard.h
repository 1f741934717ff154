// What a fork may leave behind: the threads of a process beside the one that forks, the locks that they held when they
// were looked at, and the libraries with threads of their own. Facts of one look; judge/fork_hazards.h says what may
// hang.
#ifndef COWPROF_MODEL_FACTS_FORK_HAZARD_H_
#define COWPROF_MODEL_FACTS_FORK_HAZARD_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/facts/copy_site.h"
#include "model/facts/enum_names.h"

namespace cowprof {

struct HazardThread {
  pid_t tid = 0;
  uint64_t ident = 0;        // pthread_self(); 0: unknown
  std::string name;          // threading.Thread's, else the kernel's
  bool python = false;       // it has a Python thread state
  std::string module;        // base name of the file with the function that it began with, "libgomp.so.1"; "": unknown
  std::vector<Frame> stack;  // of Python, innermost first, at most kMostHazardFrames
  uint64_t frames_left_out = 0;
  // Not in the file. As the process's own pid namespace numbers it; CLOCK_BOOTTIME, to a clock tick, 0: unknown.
  pid_t tid_inside = 0;
  uint64_t start_ns = 0;
  bool operator==(const HazardThread&) const = default;
};

enum class HeldLockKind { kLock, kRLock, kImport };
template <>
inline constexpr auto kNamesOf<HeldLockKind> = NamesFor<HeldLockKind>("lock", "rlock", "import-lock");

struct HeldLock {
  HeldLockKind kind = HeldLockKind::kLock;
  pid_t tid = 0;        // of the thread that held it
  std::string module;   // kImport: that is being imported
  uint64_t object = 0;  // address; 0 for kImport
  Frame where;          // of the thread: its `with` statement, or its import; file "": unknown
  bool operator==(const HeldLock&) const = default;
};

inline constexpr size_t kMostHazardThreads = 64, kMostHazardFrames = 32, kMostHeldLocks = 64;

// One look at a process; as an event it is as of the fork. The look comes late by `delay`: a lock that was released
// meanwhile is missing, and one that was taken meanwhile is there.
struct ForkHazardSeen {
  int child = -1;                      // index of the process whose fork led to the look; -1: none, at the attach
  absl::Duration delay;                // from that fork to the end of the look
  pid_t forker = 0;                    // the thread that forked; 0: unknown, or no fork
  std::vector<HazardThread> threads;   // all but the one that forked or, where that is unknown, the main thread
  uint64_t threads_left_out = 0;       // beyond kMostHazardThreads
  std::vector<HeldLock> locks;         // at most kMostHeldLocks
  std::vector<std::string> libraries;  // mapped ones that may start threads or matter at a fork, base names
  bool cuda = false;                   // libcuda is mapped, and a device of it is open
  bool python_read = false;            // Python's threads, stacks and locks were readable
  absl::Duration took;
  bool operator==(const ForkHazardSeen&) const = default;
};

// The look at a parent that came closest to the fork of one child, after it or, with the same threads, before it.
struct ForkSnapshot {
  std::shared_ptr<const ForkHazardSeen> seen;
  absl::Duration offset;  // from the fork to the end of the look; below zero: the look came first
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_FORK_HAZARD_H_
