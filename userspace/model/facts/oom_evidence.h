// What a recording knows about an OOM kill: which process was the victim if no probe saw the OOM killer at work, and
// how much memory each process had at that moment. Pure.
#ifndef COWPROF_MODEL_FACTS_OOM_EVIDENCE_H_
#define COWPROF_MODEL_FACTS_OOM_EVIDENCE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "model/facts/run_model.h"
#include "model/facts/sample.h"

namespace cowprof {

// Without probes a cgroup's count of kills is the only evidence. Returns one OomVictim for each process that `events`
// say was ended by SIGKILL, if a cgroup of `now` (of v2 the innermost) has counted at least as many kills since
// `before`, a moment ago. Empty if more processes were killed than the cgroup counted: then it is unknown which of them
// were victims. Both have the innermost cgroup first.
std::vector<Event> OomVictims(const std::vector<LimitSample>& before, const std::vector<LimitSample>& now,
                              const std::vector<Event>& events);

// What a kill's figures need from the sample before it, by process index; empty if `sample` has no OomVictim, and no
// signal of an OOM daemon. A
// victim's memory is being freed while it is sampled, and later samples would blame whatever grew afterwards.
struct OomScene {
  struct Process {
    uint64_t private_bytes = 0, own_pages = 0, anon_pages = 0;
  };
  std::map<int, Process> processes;
};
OomScene SceneBefore(const Sample& sample, const RunModel& model);

// Fills ProcessModel::oom of the sample's victims, and oom_daemon of those that an OOM daemon sent a signal. The
// sample's rows must have been appended.
void AppendOomKills(const Sample& sample, const OomScene& scene, RunModel* model);

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_OOM_EVIDENCE_H_
