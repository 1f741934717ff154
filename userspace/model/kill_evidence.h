// The OOM killer's victims where no probe saw it at work: a cgroup counts its kills, and a process was killed at that
// time. Pure; called by the collector with what it read. Says nothing where more were killed than the cgroup counted.
#ifndef COWPROF_MODEL_KILL_EVIDENCE_H_
#define COWPROF_MODEL_KILL_EVIDENCE_H_

#include <vector>

#include "model/sample.h"

namespace cowprof {

// One kOomVictim for each process that `events` say was ended by SIGKILL, if a cgroup of `now` has counted at least as
// many kills more than in `before`, which is a moment ago.
std::vector<Event> OomVictims(const std::vector<LimitSample>& before, const std::vector<LimitSample>& now,
                              const std::vector<Event>& events);

}  // namespace cowprof

#endif  // COWPROF_MODEL_KILL_EVIDENCE_H_
