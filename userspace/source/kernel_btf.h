// The kernel's BTF: some 130,000 types, which take milliseconds to read, and one to search for a name.
#ifndef COWPROF_SOURCE_KERNEL_BTF_H_
#define COWPROF_SOURCE_KERNEL_BTF_H_

#include <bpf/btf.h>

#include <memory>

#include "absl/status/status.h"

namespace cowprof {

using KernelBtf = std::shared_ptr<const btf>;
// Null: the kernel has none, or it can't be read. Takes 6 MiB for as long as it is held.
KernelBtf ReadKernelBtf();

// Writes the BTF of those types of the kernel that have the name of one in `local`, with what they contain, to an empty
// file: libbpf searches all types for each one that a program accesses, which is quicker with these few. Leaves out
// members whose name no struct in `local` has, and what pointers point to. Neither changes what libbpf finds: offsets
// and sizes of fields, enumerators, which types exist, and their sizes.
absl::Status WriteTypesNamedIn(const btf& local, const btf& kernel, int file);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_KERNEL_BTF_H_
