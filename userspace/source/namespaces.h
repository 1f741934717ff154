// Which namespaces cowprof itself runs in, and whether /proc belongs to its own pid namespace. Judges nothing.
#ifndef COWPROF_SOURCE_NAMESPACES_H_
#define COWPROF_SOURCE_NAMESPACES_H_

#include "absl/status/status.h"
#include "source/procfs.h"

namespace cowprof {

bool HasHostPids();  // not in a pid namespace of its own
bool HasHostName();
bool HasHostIpc();
bool HasHostClock();
// In another user namespace, capabilities apply only to what that namespace owns.
bool HasHostUsers();

// OK if `proc` shows processes by the pids that cowprof sees. Otherwise the message says what is wrong and what to do.
absl::Status CheckProc(const ProcFs& proc = ProcFs());

}  // namespace cowprof

#endif  // COWPROF_SOURCE_NAMESPACES_H_
