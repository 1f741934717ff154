// Which namespaces cowprof itself lives in, and whether /proc is that of its own processes. Read once by
// ReadHostFacts() and by who needs a single fact; judges nothing.
#ifndef COWPROF_SOURCE_NAMESPACES_H_
#define COWPROF_SOURCE_NAMESPACES_H_

#include "absl/status/status.h"
#include "source/procfs.h"

namespace cowprof {

bool HasHostPids();  // not in a pid namespace of its own
bool HasHostClock();
// In a user namespace of its own root's capabilities count for nothing but what that namespace owns.
bool HasHostUsers();

// OK if `proc` shows processes by the pids that we know them by. Else the message says what is mounted and what to do.
absl::Status CheckProc(const ProcFs& proc = ProcFs());

}  // namespace cowprof

#endif  // COWPROF_SOURCE_NAMESPACES_H_
