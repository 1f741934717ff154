// Walks down the ladder of probe_plan.h until a way of counting loads. Called by the commands that record or say what a
// host allows. The plan decides what is worth trying; trying is the only proof that it works.
#ifndef COWPROF_SOURCE_FAULT_LADDER_H_
#define COWPROF_SOURCE_FAULT_LADDER_H_

#include <memory>
#include <string>
#include <vector>

#include "source/bpf_faults.h"
#include "source/fault_source.h"
#include "source/probe_plan.h"

namespace cowprof {

struct LadderOptions {
  pid_t target = 0;  // 0: none, only to see what the host allows
  std::vector<std::string> without;
  BpfOptions bpf;
};

struct LoadedFaults {
  HostFacts facts;                      // with what each attempt came to
  std::vector<Rung> ladder;             // what was found of each rung
  std::unique_ptr<FaultSource> source;  // of ChosenRung(ladder); null: no rung works
};
LoadedFaults LoadFaults(const HostFacts& facts, const LadderOptions& options);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_FAULT_LADDER_H_
