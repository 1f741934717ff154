// From the options of a rung to probes that are loaded and attached.
#ifndef COWPROF_SOURCE_BPF_LOADING_H_
#define COWPROF_SOURCE_BPF_LOADING_H_

#include <vector>

#include "absl/status/status.h"
#include "source/bpf_faults.h"
#include "source/bpf_handles.h"
#include "source/bpf_programs.h"
#include "source/kernel_btf.h"

namespace cowprof {

// Loads the programs that `options` ask for, and no others. `kernel`: if null, it is read.
absl::Status LoadProbes(const BpfOptions& options, KernelBtf kernel, Skeleton* skeleton);

// Attaches all that is loaded, except iterators, which are run when they are needed.
absl::Status AttachProbes(const BpfOptions& options, const cowprof_probes& skeleton, std::vector<Link>* links);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_LOADING_H_
