// The rungs with probes: counts faults and copies with the programs of bpf/cowprof.bpf.c.
#ifndef COWPROF_SOURCE_BPF_FAULTS_H_
#define COWPROF_SOURCE_BPF_FAULTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "source/fault_source.h"
#include "source/kernel_btf.h"

namespace cowprof {

struct BpfOptions {
  std::string copies = "btf-tracepoints", faults = "btf-tracepoints";  // names of the rungs that give them
  bool signals = true;                                                 // take the evidence of deaths
  bool hugetlb = false;                                                // count copies of its pages, by fentry
  uint64_t max_regions = 65536;                    // rows of the 2 MiB region table; 80 bytes of kernel memory each
  uint32_t max_cause_rows = 0, max_processes = 0;  // 0: as many as the probes are made for
  bool every_copy = false;                         // look at each copy and its stack, whatever it costs
  bool copy_sites = true;                          // take types and stacks at all
  bool kernel_reads = true;  // read kernel memory for the evidence of deaths, where the kernel lets us
  bool preemptible = false;  // load them twice also where the kernel does not preempt them
  // Called when they are loaded, before they are attached: nanoseconds that a copy takes without them; 0: unknown.
  std::function<double()> bare_copy_ns = nullptr;
};

// Loads and attaches the programs of those rungs. PermissionDenied or Unimplemented with the reason where the kernel
// refuses. Everything is detached and freed with the object, and by the kernel if cowprof is killed: nothing is pinned.
// `kernel`: if null, it is read once more.
absl::StatusOr<std::unique_ptr<FaultSource>> LoadBpfFaults(const BpfOptions& options, KernelBtf kernel = nullptr);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_FAULTS_H_
