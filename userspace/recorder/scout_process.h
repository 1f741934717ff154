// The process behind a StartMethodScout (start_method_scout.h), and the packets that both send.
#ifndef COWPROF_RECORDER_SCOUT_PROCESS_H_
#define COWPROF_RECORDER_SCOUT_PROCESS_H_

#include <sys/types.h>

#include <cstddef>

#include "model/facts/process_id.h"

namespace cowprof {

inline constexpr char kWatch = 'w', kWatchStarted = 's', kLook = 'l', kPickling = 'p', kEnded = 'e';
struct ScoutRequest {
  char what = 0;
  ProcessId id, other;  // `other`, of kLook: a worker of it
};
// Bytes of what comes back: JSON, {"pid", "start_ns"} and one of "look", "failed", "error" and "ended".
inline constexpr size_t kMostOfScoutPacket = 128 << 10;

// Serves requests until the other end of `socket` is closed. Call in a child of `recorder`.
[[noreturn]] void RunScout(int socket, pid_t recorder);

}  // namespace cowprof

#endif  // COWPROF_RECORDER_SCOUT_PROCESS_H_
