// Keeps the recorder alive while memory runs out, and reports if that can't be guaranteed.
#ifndef COWPROF_RECORDER_SELF_PROTECTION_H_
#define COWPROF_RECORDER_SELF_PROTECTION_H_

#include <string>
#include <vector>

#include "model/facts/sample.h"

namespace cowprof {

// Gives large blocks back to the kernel as soon as they are freed. glibc raises the size from which it does so to that
// of the first one freed, here the kernel's BTF: the next readers of it left 10 MiB in the heap while the verifier ran,
// which is when cowprof takes most. Keeps 2 MiB at the end of the heap: what a look at a process takes and frees, the
// look at the next one needs again.
void TuneHeap();

// Locks cowprof's pages in memory from their first touch on: a recorder that waits for its own code to be read from
// disk writes nothing in time. Call when everything is set up. Has no effect if not permitted.
void LockMemory();

// Raises the soft limit on descriptors to the hard limit: probes need some per CPU and per program of the target, and
// 500 workers that each call exec reach a soft limit of 1024. Call after forking the target, which keeps its own limit.
void RaiseDescriptorLimit();

// A sentence if cowprof is in a memory cgroup whose limit also applies to the target, so that the OOM killer may choose
// cowprof; otherwise "". The arguments are the limits of each process.
std::string SharedFateNote(const std::vector<LimitSample>& target, const std::vector<LimitSample>& own);

}  // namespace cowprof

#endif  // COWPROF_RECORDER_SELF_PROTECTION_H_
