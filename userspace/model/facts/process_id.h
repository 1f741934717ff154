// Identifies a process for good: its pid and when it started.
#ifndef COWPROF_MODEL_FACTS_PROCESS_ID_H_
#define COWPROF_MODEL_FACTS_PROCESS_ID_H_

#include <sys/types.h>

#include <cstdint>
#include <utility>

namespace cowprof {

// /proc counts time in USER_HZ, which is 100 on every Linux architecture that cowprof runs on.
inline constexpr uint64_t kNsPerTick = 10'000'000;

// Identity of a process. A pid alone is never a key: the kernel reuses it. `start_ns` is task->start_boottime of the
// group leader (ns since boot); if only /proc is available it is /proc/PID/stat field 22 in ns, truncated to 10 ms.
struct ProcessId {
  pid_t pid = 0;
  uint64_t start_ns = 0;

  uint64_t start_ticks() const { return start_ns / kNsPerTick; }  // as /proc has it
  bool operator==(const ProcessId&) const = default;
  // The same process, if one of both is known from /proc only.
  bool IsSameAs(const ProcessId& other) const { return pid == other.pid && start_ticks() == other.start_ticks(); }
  template <typename H>
  friend H AbslHashValue(H h, const ProcessId& id) {
    return H::combine(std::move(h), id.pid, id.start_ns);
  }
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_PROCESS_ID_H_
