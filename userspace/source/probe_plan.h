// What the host allows, and which way of counting follows from it. ReadHostFacts() reads the facts. PlanProbes()
// decides; it is pure, and tested by removing one fact at a time.
#ifndef COWPROF_SOURCE_PROBE_PLAN_H_
#define COWPROF_SOURCE_PROBE_PLAN_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "model/facts/sample.h"
#include "source/kernel_btf.h"

namespace cowprof {

// The probes count pages of this size; the plan refuses them on hosts with another.
inline constexpr uint64_t kProbedPageBytes = 4096;

struct HostFacts {
  std::string kernel;        // uname -r
  std::string architecture;  // uname -m
  uint64_t page_bytes = 4096;
  int cpus = 0;
  bool kernel_btf = false;  // /sys/kernel/btf/vmlinux is readable
  KernelBtf types;          // what was read there, for the first to load programs; null: no longer held
  bool cap_bpf = false, cap_perfmon = false, cap_sys_ptrace = false, cap_sys_admin = false;
  bool host_namespaces = false;   // cowprof's pids and clock are the host's; otherwise bpf/namespaces.h translates
  bool host_users = false;        // otherwise the capabilities are not those that bpf(2) checks, the host's
  bool bpf_threads = false;       // BPF programs can keep state per thread and read its registers (since 5.15)
  bool bpf_find_vma = false;      // and find the mapping of an address (since 5.17)
  bool ring_sleeps = false;       // PREEMPT_RT: a BPF ring buffer takes a lock that sleeps, where probes must not
  bool fault_tracepoint = false;  // BTF has exceptions:page_fault_user: x86-64
  absl::Status fentry;            // result of loading an empty fentry program on do_wp_page
  absl::Status perf_event;        // result of opening the page-fault software event on one CPU
  // Rungs that were really tried and did not load; kSignals if only its programs did not.
  std::map<std::string, absl::Status> refused;
  // What to do about missing capabilities, in a message to who called; "": what anybody can do.
  std::string rights_remedy;
};
// Those of them that loading the probes takes and that are missing, such as "CAP_BPF".
std::vector<std::string> MissingCapabilities(const HostFacts& facts);
// Tries fentry and the perf event. Leaves `refused` empty: fault_ladder.h loads the rungs.
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
  std::string reason, remedy;  // why not usable; if usable, why it does not give all that it could

  bool gives(absl::string_view capability) const;
};
// The ladder, best first. `without` names rungs that must not be used, and capabilities: each takes the capability away
// from the best rung that gives it.
std::vector<Rung> PlanProbes(const HostFacts& facts, const std::vector<std::string>& without);

// Optional on every rung: reading Python's memory, and of that only the types and stacks, or what other start methods
// would do.
inline constexpr absl::string_view kWithoutCauses = "causes", kWithoutStacks = "stacks",
                                   kWithoutStartMethods = "start-methods", kWithoutHangs = "hangs";

// What --without accepts: rungs, what they give, and these four.
std::vector<std::string> WithoutNames();
// The error names the first unknown name.
absl::Status CheckWithout(const std::vector<std::string>& names);

// The rung for each capability; null: none. All depend on the rung for copies; without that, cowprof can do nothing.
struct ChosenRungs {
  const Rung *faults = nullptr, *copies = nullptr, *follow = nullptr, *signals = nullptr;
  bool hugetlb = false;  // hugetlb copies may be countable: with fentry, on any rung whose faults have error codes
};
ChosenRungs ChooseRungs(const std::vector<Rung>& ladder);
inline const Rung* ChosenRung(const std::vector<Rung>& ladder) { return ChooseRungs(ladder).copies; }

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PROBE_PLAN_H_
