// The rung without probes and without privileges: the tree of processes from /proc, faults from stat, copies from the
// page map. The collector runs the sweeps and hands in what they found, because it sweeps anyway; what the bytes of
// copied pages say comes from it, too. Loaded by fault_ladder.cc.
#ifndef COWPROF_SOURCE_PAGEMAP_FAULTS_H_
#define COWPROF_SOURCE_PAGEMAP_FAULTS_H_

#include <sys/types.h>

#include <memory>

#include "absl/status/statusor.h"
#include "source/fault_source.h"
#include "source/procfs.h"

namespace cowprof {

// Fails if the page map of `target` (0: of cowprof itself) can't be read.
absl::StatusOr<std::unique_ptr<FaultSource>> LoadPagemapFaults(pid_t target, uint64_t page_bytes,
                                                               ProcFs proc = ProcFs());

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PAGEMAP_FAULTS_H_
