// The moment of an OOM kill: how much memory each process had, while the victim's is being taken away. Pure; called by
// Append() in growth.cc, since later samples would blame who grew later.
#ifndef COWPROF_MODEL_OOM_KILL_H_
#define COWPROF_MODEL_OOM_KILL_H_

#include <cstdint>
#include <map>

#include "model/growth.h"

namespace cowprof {

// What is needed of the sample before, by index; empty where the sample tells of no OOM kill.
struct OomScene {
  struct Process {
    uint64_t private_bytes = 0, own_pages = 0, anon_pages = 0;
  };
  std::map<int, Process> processes;
};
OomScene SceneBefore(const Sample& sample, const Growth& growth);

// Fills ProcessGrowth::oom of the sample's victims, whose rows have been appended.
void AppendOomKills(const Sample& sample, const OomScene& scene, Growth* growth);

}  // namespace cowprof

#endif  // COWPROF_MODEL_OOM_KILL_H_
