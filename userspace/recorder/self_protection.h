// What keeps the recorder alive while memory runs out, and what it has to admit. Called by the recording command, once.
#ifndef COWPROF_SURVIVAL_H_
#define COWPROF_SURVIVAL_H_

#include <string>
#include <vector>

#include "model/sample.h"

namespace cowprof {

// Keeps our pages in memory from their first touch on: a recorder that waits for its own code to be read back from disk
// writes nothing in time. Where it may not, nothing is lost but that. When everything is set up.
void LockMemory();

// As many descriptors as we may have: probes take some for each CPU, and each program of the target does; a soft limit
// of 1024 is met by 500 workers that each call exec. Once what we start is forked: that keeps its own limit.
void RaiseDescriptorLimit();

// A sentence if we are in a memory cgroup whose limit the target's memory meets: then the OOM killer may choose us. ""
// otherwise. Both are the limits that a process meets.
std::string SharedFateNote(const std::vector<LimitSample>& target, const std::vector<LimitSample>& own);

}  // namespace cowprof

#endif  // COWPROF_SURVIVAL_H_
