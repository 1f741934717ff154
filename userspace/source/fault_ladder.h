// Walks down the ladder of probe_plan.h until a way of counting loads. The plan decides what is worth trying; only
// trying proves that it works.
#ifndef COWPROF_SOURCE_FAULT_LADDER_H_
#define COWPROF_SOURCE_FAULT_LADDER_H_

#include <memory>
#include <string>
#include <vector>

#include "source/bpf_faults.h"
#include "source/fault_source.h"
#include "source/pagemap_faults.h"
#include "source/probe_plan.h"

namespace cowprof {

struct LadderOptions {
  pid_t target = 0;  // 0: none, just find out what the host allows
  std::vector<std::string> without;
  BpfOptions bpf;
  PagemapOptions pagemap;  // page_bytes: of the host, whatever stands here
};

struct LoadedFaults {
  HostFacts facts;                      // including the outcome of each attempt
  std::vector<Rung> ladder;             // the result for each rung
  std::unique_ptr<FaultSource> source;  // for ChosenRung(ladder); null: no rung works
};
LoadedFaults LoadFaults(HostFacts facts, const LadderOptions& options);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_FAULT_LADDER_H_
