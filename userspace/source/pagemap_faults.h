// The rung without probes and without privileges: the tree of processes from /proc, faults from stat, copies from
// sweeps of the page map, which this source plans and runs itself. What the bytes of copied pages say, its caller's
// PageReader tells.
#ifndef COWPROF_SOURCE_PAGEMAP_FAULTS_H_
#define COWPROF_SOURCE_PAGEMAP_FAULTS_H_

#include <sys/types.h>

#include <memory>

#include "absl/status/statusor.h"
#include "source/fault_source.h"
#include "source/procfs.h"

namespace cowprof {

struct PagemapOptions {
  uint64_t page_bytes = 4096;
  uint64_t t0_ns = 0;          // CLOCK_BOOTTIME at the start of the recording
  size_t sample_diverged = 0;  // see SweepJob
};

// Fails if the page map of `target` (0: of cowprof itself) can't be read.
absl::StatusOr<std::unique_ptr<FaultSource>> LoadPagemapFaults(pid_t target, const PagemapOptions& options,
                                                               ProcFs proc = ProcFs());

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PAGEMAP_FAULTS_H_
