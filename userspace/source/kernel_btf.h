// The kernel's BTF: some 130,000 types, which take milliseconds to read, and one to search for a name.
#ifndef COWPROF_SOURCE_KERNEL_BTF_H_
#define COWPROF_SOURCE_KERNEL_BTF_H_

#include <bpf/btf.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "posix/fd.h"

namespace cowprof {

using KernelBtf = std::shared_ptr<const btf>;
// Null: the kernel has none, or it can't be read. Takes 6 MiB for as long as it is held.
KernelBtf ReadKernelBtf();

// Writes the BTF of those types of the kernel that have the name of one in `local`, with what they contain, to an empty
// file: libbpf searches all types for each one that a program accesses, which is quicker with these few. Leaves out
// members whose name no struct in `local` has, and what pointers point to. Neither changes what libbpf finds: offsets
// and sizes of fields, enumerators, which types exist, and their sizes.
absl::Status WriteTypesNamedIn(const btf& local, const btf& kernel, int file);

// What libbpf is told to read types from: a file in memory, to be written before the programs are loaded. Where none
// can be made (vm.memfd_noexec=2 before Linux 6.6), the kernel's own: named, so that libbpf does not search the
// kernel's modules for types that the kernel lacks, which requires CAP_SYS_ADMIN (BPF_BTF_GET_NEXT_ID).
class TypesFile {
 public:
  TypesFile();
  const std::string& path() const { return path_; }
  absl::Status Write(const btf& local, const btf& kernel) const;

 private:
  Fd memory_;
  std::string path_;
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_KERNEL_BTF_H_
