// What the host allows, and which way of counting follows from it. Facts are read by ReadHostFacts, the decision is
// PlanProbes, a pure function that is tested by taking one fact away at a time. One of the two files that include
// libbpf.
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
  // cowprof's pids and clock are the host's: the probes know processes by those alone.
  bool host_namespaces = false;
  bool fault_tracepoint = false;  // BTF knows exceptions:page_fault_user: x86-64
  absl::Status fentry;            // of loading an empty fentry program on do_wp_page
  // Rungs that were tried, for real, and did not load.
  std::map<std::string, absl::Status> refused;
};
// `refused` is left to who loads the rungs (fault_ladder.h). Tries fentry.
HostFacts ReadHostFacts();

inline constexpr absl::string_view kRungTracepoints = "btf-tracepoints", kRungFentry = "fentry",
                                   kRungPageMap = "page-map";

// One way of counting, and whether this host has it.
struct Rung {
  std::string name;
  std::vector<std::string> capabilities;  // what it gives: "faults", "copies", "follow", "signals"
  Exactness exactness = Exactness::kUnavailable;
  bool usable = false;
  std::string reason, remedy;  // where it is not
};
// The ladder, best first. `without` names rungs or capabilities that must not be used.
std::vector<Rung> PlanProbes(const HostFacts& facts, const std::vector<std::string>& without);

// What every rung can go without: reading Python's memory, and of that the types and stacks.
inline constexpr absl::string_view kWithoutCauses = "causes", kWithoutStacks = "stacks";

// What --without may name: the rungs, what they give, and these two.
bool IsKnownCapability(absl::string_view name);

// The first usable rung; null: the host can do nothing.
const Rung* ChosenRung(const std::vector<Rung>& ladder);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PROBE_PLAN_H_
