// Which programs of bpf/cowprof.bpf.c a rung needs, and the perf events that one of them is attached to.
#ifndef COWPROF_SOURCE_BPF_PROGRAMS_H_
#define COWPROF_SOURCE_BPF_PROGRAMS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

struct btf;
struct bpf_link;
struct bpf_program;
struct cowprof_probes;

namespace cowprof {

struct ProgramChoice {
  absl::string_view copies, faults;  // names of rungs; they differ if copies come from fentry
  bool signals = true;               // report signals and deaths
  bool hugetlb = false;              // count hugetlb copies with fentry, if this kernel has a suitable function
  bool preemptible = false;          // assume preemptible tracepoints, whatever the kernel is
};
// Call before loading. `types`: the kernel's BTF; without it (null), takes it for a recent kernel.
void ChoosePrograms(const ProgramChoice& choice, const btf* types, cowprof_probes* skeleton);

// Opens the software event that counts every page fault on one CPU; -1 with errno on failure.
int OpenFaultEvent(int cpu);

// How often the kernel may have skipped both instances of a program, which it does while threads that were preempted
// inside them wait for the same CPU. Each skip is at most one missed copy or child, and usually none.
uint64_t SkippedRuns(const cowprof_probes& skeleton);

struct LinkDeleter {
  void operator()(bpf_link* link) const;
};
using Link = std::unique_ptr<bpf_link, LinkDeleter>;
// One event for each CPU that is online.
absl::Status AttachToFaultEvents(bpf_program* program, std::vector<Link>* links);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_PROGRAMS_H_
