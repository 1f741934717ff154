// What the host allows, and which way of counting follows from it. Facts are read by ReadHostFacts, the decision is
// PlanProbes, a pure function that is tested by taking one fact away at a time.
#ifndef COWPROF_SOURCE_PROBE_PLAN_H_
#define COWPROF_SOURCE_PROBE_PLAN_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "model/sample.h"

namespace cowprof {

struct HostFacts {
  std::string kernel;        // uname -r
  std::string architecture;  // uname -m
  uint64_t page_bytes = 4096;
  int cpus = 0;
  bool kernel_btf = false;  // /sys/kernel/btf/vmlinux can be read
  bool cap_bpf = false, cap_perfmon = false, cap_sys_ptrace = false, cap_sys_admin = false;
  bool host_namespaces = false;   // cowprof's pids and clock are the host's; else the probes translate (bpf/view.h)
  bool host_users = false;        // else the capabilities are of another user namespace than the one bpf(2) asks
  bool bpf_threads = false;       // BPF programs can keep state for a thread, and see its registers (since 5.15)
  bool bpf_find_vma = false;      // and what an address is mapped to (since 5.17)
  bool fault_tracepoint = false;  // BTF knows exceptions:page_fault_user: x86-64
  absl::Status fentry;            // of loading an empty fentry program on do_wp_page
  absl::Status perf_event;        // of opening the software event of page faults on one CPU
  // Rungs that were tried, for real, and did not load; and kSignals, where its programs alone did not.
  std::map<std::string, absl::Status> refused;
};
// `refused` is left to who loads the rungs (fault_ladder.h). Tries fentry and the perf event.
HostFacts ReadHostFacts();

inline constexpr absl::string_view kRungTracepoints = "btf-tracepoints", kRungFentry = "fentry",
                                   kRungPerfEvent = "perf-event", kRungProcesses = "process-tracepoints",
                                   kRungPageMap = "page-map";
inline constexpr absl::string_view kFaults = "faults", kCopies = "copies", kFollow = "follow", kSignals = "signals";

// One way of counting, and whether this host has it.
struct Rung {
  std::string name;
  std::vector<std::string> capabilities;          // what it gives: kFaults, kCopies, kFollow, kSignals
  Exactness exactness = Exactness::kUnavailable;  // of copies
  bool usable = false;
  std::string reason, remedy;  // where it is not; `reason` of a usable one: why it does not give all that it could

  bool gives(absl::string_view capability) const;
};
// The ladder, best first. `without` names rungs that must not be used, or capabilities: each takes it away from the
// best rung that gives it.
std::vector<Rung> PlanProbes(const HostFacts& facts, const std::vector<std::string>& without);

// What every rung can go without: reading Python's memory, and of that the types and stacks.
inline constexpr absl::string_view kWithoutCauses = "causes", kWithoutStacks = "stacks";

// What --without may name: the rungs, what they give, and these two. An error says which name is none.
absl::Status CheckWithout(const std::vector<std::string>& names);

// Who gives each capability; null: nobody does. All follow from who gives copies; without that, nothing can be done.
struct ChosenRungs {
  const Rung *faults = nullptr, *copies = nullptr, *follow = nullptr, *signals = nullptr;
  bool hugetlb = false;  // its copies may be seen: by fentry, whatever counts others, where faults have error codes
};
ChosenRungs ChooseRungs(const std::vector<Rung>& ladder);
inline const Rung* ChosenRung(const std::vector<Rung>& ladder) { return ChooseRungs(ladder).copies; }

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PROBE_PLAN_H_
