// Which programs of bpf/cowprof.bpf.c a rung needs, and the perf events that one of them is attached to. Called by
// bpf_faults.cc, and by probe_plan.cc to try an event.
#ifndef COWPROF_SOURCE_BPF_PROGRAMS_H_
#define COWPROF_SOURCE_BPF_PROGRAMS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct bpf_link;
struct bpf_program;
struct cowprof_probes;

namespace cowprof {

struct ProgramChoice {
  absl::string_view copies, faults;  // names of rungs; what gives faults is another where copies is fentry
  bool signals = true;               // tell deaths
  bool hugetlb = false;              // copies of its pages, by fentry, if this kernel has a function that tells them
  bool preemptible = false;          // whatever the kernel is like
};
// To be called before loading.
void ChoosePrograms(const ProgramChoice& choice, cowprof_probes* skeleton);

// The software event of page faults, every one of them, on one CPU; -1 and errno.
int OpenFaultEvent(int cpu);

// How often the kernel may have left out both copies of a program, as it does while threads that were preempted inside
// of them wait for the same CPU. Each is a copy that was not seen, or a child; mostly it is none.
uint64_t SkippedRuns(const cowprof_probes& skeleton);

struct LinkDeleter {
  void operator()(bpf_link* link) const;
};
using Link = std::unique_ptr<bpf_link, LinkDeleter>;
// One event for each CPU that is online.
absl::StatusOr<std::vector<Link>> AttachToFaultEvents(bpf_program* program);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_PROGRAMS_H_
