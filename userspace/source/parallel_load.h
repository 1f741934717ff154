// Has the kernel verify programs on two CPUs at once, where libbpf would load one after the other. For a process with
// CAP_BPF the verifier takes no lock that two programs would share.
//
// libbpf shows each program to a callback before it loads it. There cowprof takes the finished program away and gives
// libbpf two instructions in its place. Once libbpf is done, cowprof loads what it took, on two threads, and has the
// descriptors that libbpf keeps refer to that. There is one object, and one copy of each map and of global data.
//
// The second thread ends before LoadPrograms() returns. It makes system calls only, never calls libbpf, and has all
// signals blocked. Everything here is called by one thread of the process.
#ifndef COWPROF_SOURCE_PARALLEL_LOAD_H_
#define COWPROF_SOURCE_PARALLEL_LOAD_H_

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <cstdint>
#include <vector>

struct cowprof_probes;

namespace cowprof {

// The type of the kernel that a program attaches to.
struct AttachTarget {
  const bpf_program* program;
  uint32_t kind;    // of the type
  uint32_t id = 0;  // of the type; 0: the kernel has none of that name
};
// Of all programs of `object` that are to be loaded and attach to a type. Searches the kernel's types once.
std::vector<AttachTarget> FindAttachTargets(const btf& kernel, const bpf_object& object);

// From now on, for the life of the process, programs of objects that are opened get their attach targets from
// LoadPrograms(), which has to load them: libbpf then need not read the kernel's BTF itself. Where libbpf refuses that,
// it loads as if it had not been asked.
void HandleSections();

// How many threads can load at once here: 2, or 1 on one CPU.
int LoadingThreads();

struct LoadResult {
  int error = 0;          // 0 or -errno
  int second_thread = 0;  // how many programs that loaded
};
// Loads a skeleton that was opened after HandleSections(). A program whose target has no id is refused. With one thread
// libbpf loads each itself, and tells its print callback what failed. With two, only the error is known; to load anew
// with one says why, or succeeds. Where no second thread can be started, the caller's loads all.
LoadResult LoadPrograms(cowprof_probes* skeleton, const std::vector<AttachTarget>& targets, int threads);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PARALLEL_LOAD_H_
