// Each obstacle is a function from facts to reason and remedy; the ladder is a table of rungs, best first.
#include "source/probe_plan.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/format.h"
#include "posix/fd.h"
#include "posix/rights.h"
#include "source/bpf_programs.h"
#include "source/namespaces.h"

namespace cowprof {
namespace {

bool Knows(const btf* kernel, const char* name, uint32_t kind) {
  return btf__find_by_name_kind(kernel, name, kind) > 0;
}

// The kernel's BTF has an enumerator for each helper function.
bool KnowsHelper(const btf* kernel, absl::string_view helper) {
  const int id = btf__find_by_name_kind(kernel, "bpf_func_id", BTF_KIND_ENUM);
  if (id < 0) return false;
  const btf_type* type = btf__type_by_id(kernel, id);
  const auto* values = btf_enum(type);
  return std::any_of(values, values + btf_vlen(type),
                     [&](const auto& value) { return helper == btf__name_by_offset(kernel, value.name_off); });
}

// Since 6.12 the lock of a BPF ring buffer is a raw one (8b62645b09f8), also in stable versions of older kernels.
bool HasSleepingRing(const btf* kernel) {
  const btf_type* ring = btf__type_by_id(kernel, btf__find_by_name_kind(kernel, "bpf_ringbuf", BTF_KIND_STRUCT));
  if (ring == nullptr || !btf_is_struct(ring)) return false;
  for (int i = 0; i < btf_vlen(ring); ++i) {
    const btf_member& member = btf_members(ring)[i];
    const btf_type* type = btf__type_by_id(kernel, member.type);
    if (absl::string_view(btf__name_by_offset(kernel, member.name_off)) == "spinlock")
      return absl::string_view(btf__name_by_offset(kernel, type->name_off)) == "spinlock_t";
  }
  return false;
}

// Loads an empty fentry program on the function that decides between copy and reuse. Does not attach it: that would
// patch the kernel's text just for a test.
absl::Status TryFentry(const btf* kernel) {
  const int function = btf__find_by_name_kind(kernel, "do_wp_page", BTF_KIND_FUNC);
  if (function < 0) return absl::ErrnoToStatus(-function, "find do_wp_page in the kernel's BTF");
  if (!Knows(kernel, "folio_add_new_anon_rmap", BTF_KIND_FUNC) &&
      !Knows(kernel, "page_add_new_anon_rmap", BTF_KIND_FUNC)) {
    return absl::NotFoundError("the kernel's BTF has neither folio_add_new_anon_rmap nor page_add_new_anon_rmap");
  }
  const bpf_insn body[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0}, {.code = BPF_JMP | BPF_EXIT}};
  LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FENTRY,
              .attach_btf_id = static_cast<__u32>(function));
  const Fd program(bpf_prog_load(BPF_PROG_TYPE_TRACING, "cowprof_try", "GPL", body, 2, &options));
  return program.ok() ? absl::OkStatus() : absl::ErrnoToStatus(errno, "load fentry/do_wp_page");
}

absl::Status TryPerfEvent() {
  Fd event(OpenFaultEvent(sched_getcpu()));
  return event.ok() ? absl::OkStatus() : absl::ErrnoToStatus(errno, "open the perf event of page faults");
}

// ---- The ladder ----

struct Obstacle {
  std::string reason, remedy;
};

// For every rung that needs programs in the kernel.
Obstacle ObstacleToBpf(const HostFacts& facts) {
  if (!facts.kernel_btf) {
    return {"this kernel has no BTF (/sys/kernel/btf/vmlinux can't be read)",
            "use a kernel with CONFIG_DEBUG_INFO_BTF, or mount /sys in the container"};
  }
  if (facts.page_bytes != kProbedPageBytes) {
    return {
        absl::StrCat("the probes count pages of 4 KiB, but this kernel has pages of ", facts.page_bytes / 1024, " KiB"),
        "none; the page map works with any page size"};
  }
  if (!facts.bpf_threads) {
    return {"BPF programs of this kernel can't keep state per thread or read its registers",
            "use a kernel with bpf_task_storage_get and bpf_task_pt_regs for tracing: Linux 5.15"};
  }
  if (facts.ring_sleeps) {
    return {"the BPF ring buffers of this PREEMPT_RT kernel take a lock that sleeps, where probes must not",
            "use Linux 6.12 or later"};
  }
  if (!facts.host_users) {
    return {
        "cowprof runs in a user namespace of its own (as in a rootless container): its capabilities apply to that "
        "namespace only, and bpf(2) requires the host's",
        facts.rights_remedy.empty() ? "run cowprof as root on the host, from where it can see into containers"
                                    : facts.rights_remedy};
  }
  if (const std::vector<std::string> missing = MissingCapabilities(facts); !missing.empty()) {
    return {absl::StrCat("not allowed: ", absl::StrJoin(missing, ", "), " missing"),
            facts.rights_remedy.empty()
                ? "run with sudo, or grant them to the file (docs/privileges.md) or the container (--cap-add)"
                : absl::StrCat(facts.rights_remedy, " (more ways: docs/privileges.md)")};
  }
  return {};
}

Obstacle ObstacleToTracepoints(const HostFacts& facts) {
  if (facts.fault_tracepoint) return {};
  return {absl::StrCat("this kernel has no tracepoint page_fault_user (", facts.architecture, ")"),
          "none on this architecture; only x86-64 has it"};
}

Obstacle ObstacleToFentry(const HostFacts& facts) {
  if (facts.fentry.ok()) return {};
  return {std::string(facts.fentry.message()),
          facts.fault_tracepoint
              ? "none needed if btf-tracepoints is usable"
              : "run as root on the host, without lockdown; the kernel needs CONFIG_FUNCTION_TRACER"};
}

Obstacle ObstacleToPerfEvent(const HostFacts& facts) {
  if (!facts.perf_event.ok())
    return {std::string(facts.perf_event.message()),
            "run as root, or with CAP_PERFMON; a seccomp profile may forbid it"};
  if (facts.bpf_find_vma) return {};
  return {"BPF programs of this kernel can't find the mapping of an address, to tell copies from shared memory",
          "use a kernel with bpf_find_vma: Linux 5.17"};
}

// Only trying tells.
Obstacle NoObstacle(const HostFacts&) { return {}; }

struct RungRow {
  absl::string_view name;
  std::vector<absl::string_view> capabilities;
  absl::string_view essential;  // useless without this capability
  Exactness exactness;
  Obstacle (*obstacle)(const HostFacts&);
  bool bpf;  // needs programs in the kernel
};

// Best first.
const std::vector<RungRow>& Rows() {
  static const auto& rows = *new std::vector<RungRow>{
      {kRungTracepoints, {kFaults, kCopies}, kFaults, Exactness::kExact, ObstacleToTracepoints, true},
      {kRungFentry, {kCopies}, kCopies, Exactness::kExact, ObstacleToFentry, true},
      {kRungPerfEvent, {kFaults, kCopies}, kFaults, Exactness::kUpperBound, ObstacleToPerfEvent, true},
      {kRungProcesses, {kFollow, kSignals}, kFollow, Exactness::kUnavailable, NoObstacle, true},
      {kRungPageMap, {kFaults, kCopies, kFollow}, kCopies, Exactness::kPageMap, NoObstacle, false},
  };
  return rows;
}

const char* RemedyOfRefusal(const RungRow& row, const absl::Status& refused) {
  if (!row.bpf && absl::IsNotFound(refused)) return "none: this kernel has no page maps, as gVisor's";
  if (!row.bpf) return "run cowprof as the user that the process runs as, in the same container";
  if (absl::IsResourceExhausted(refused))
    return "raise the limit on open files or memory: ulimit -n, ulimit -v, or that of the container or unit";
  if (absl::IsPermissionDenied(refused))
    return "the kernel or the container's seccomp profile refuses bpf(2); run cowprof on the host";
  return "none known for this kernel; please report this message";
}

Rung PlanRung(const RungRow& row, const HostFacts& facts) {
  Rung rung = {.name = std::string(row.name),
               .capabilities = {row.capabilities.begin(), row.capabilities.end()},
               .exactness = row.exactness};
  Obstacle obstacle = row.bpf ? ObstacleToBpf(facts) : Obstacle{};
  if (obstacle.reason.empty()) obstacle = row.obstacle(facts);
  if (const auto refused = facts.refused.find(rung.name); obstacle.reason.empty() && refused != facts.refused.end()) {
    obstacle = {std::string(refused->second.message()), RemedyOfRefusal(row, refused->second)};
  }
  rung.usable = obstacle.reason.empty();
  rung.reason = std::move(obstacle.reason);
  rung.remedy = std::move(obstacle.remedy);
  return rung;
}

void Refuse(Rung* rung, Obstacle obstacle) {
  rung->usable = false;
  rung->reason = std::move(obstacle.reason);
  rung->remedy = std::move(obstacle.remedy);
}

// The rung stays usable if it gives something else.
void TakeAway(absl::string_view capability, const RungRow& row, Obstacle obstacle, Rung* rung) {
  if (!rung->usable || !rung->gives(capability)) return;
  if (capability == row.essential || row.capabilities.size() == 1) return Refuse(rung, std::move(obstacle));
  rung->capabilities.erase(std::find(rung->capabilities.begin(), rung->capabilities.end(), capability));
  rung->reason = absl::StrCat("without ", capability, ": ", obstacle.reason);
  rung->remedy = std::move(obstacle.remedy);
}

const Rung* FirstThatGives(absl::string_view capability, const std::vector<Rung>& ladder) {
  const auto found = std::find_if(ladder.begin(), ladder.end(),
                                  [&](const Rung& rung) { return rung.usable && rung.gives(capability); });
  return found == ladder.end() ? nullptr : &*found;
}

// Refuses rungs whose prerequisites are not usable.
void Settle(std::vector<Rung>* ladder) {
  const auto usable = [&](absl::string_view name) {
    return std::any_of(ladder->begin(), ladder->end(),
                       [&](const Rung& rung) { return rung.name == name && rung.usable; });
  };
  for (size_t i = 0; i < ladder->size(); ++i) {
    Rung& rung = (*ladder)[i];
    if (!rung.usable) continue;
    if (Rows()[i].bpf && !usable(kRungProcesses)) {
      Refuse(&rung, {absl::StrCat("it needs ", kRungProcesses, ", which is not usable"), "see there"});
    } else if (rung.name == kRungFentry && !usable(kRungTracepoints) && !usable(kRungPerfEvent)) {
      Refuse(&rung, {absl::StrCat("it needs the faults of ", kRungTracepoints, " or ", kRungPerfEvent,
                                  ", and neither is usable"),
                     "see there"});
    }
  }
}

void Forbid(const std::string& name, std::vector<Rung>* ladder) {
  const Obstacle forbidden = {absl::StrCat("forbidden by --without ", name), "drop --without NAME"};
  const Rung* first = FirstThatGives(name, *ladder);
  for (size_t i = 0; i < ladder->size(); ++i) {
    Rung& rung = (*ladder)[i];
    if (&rung == first) TakeAway(name, Rows()[i], forbidden, &rung);
    if (rung.name == name && rung.usable) Refuse(&rung, forbidden);
  }
  Settle(ladder);
}

}  // namespace

// CAP_SYS_PTRACE is only needed to read other users' processes, which CheckTarget() checks.
std::vector<std::string> MissingCapabilities(const HostFacts& facts) {
  std::vector<std::string> missing;
  if (!facts.cap_bpf && !facts.cap_sys_admin) missing.push_back("CAP_BPF");
  if (!facts.cap_perfmon && !facts.cap_sys_admin) missing.push_back("CAP_PERFMON");
  return missing;
}

HostFacts ReadHostFacts() {
  HostFacts facts;
  utsname name = {};
  uname(&name);
  facts.kernel = name.release;
  facts.architecture = name.machine;
  facts.page_bytes = sysconf(_SC_PAGESIZE);
  facts.cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.host_namespaces = HasHostPids() && HasHostClock();
  facts.host_users = HasHostUsers();
  const CapabilitySet held = EffectiveCapabilities();
  const auto has = [&](int capability) { return (held >> capability & 1) != 0; };
  facts.cap_bpf = has(kCapBpf);
  facts.cap_perfmon = has(kCapPerfmon);
  facts.cap_sys_ptrace = has(CAP_SYS_PTRACE);
  facts.cap_sys_admin = has(CAP_SYS_ADMIN);
  libbpf_set_print(nullptr);
  facts.types = ReadKernelBtf();
  if (const btf* kernel = facts.types.get()) {
    facts.kernel_btf = true;
    facts.fault_tracepoint = Knows(kernel, "btf_trace_page_fault_user", BTF_KIND_TYPEDEF);
    facts.bpf_threads =
        KnowsHelper(kernel, "BPF_FUNC_task_storage_get") && KnowsHelper(kernel, "BPF_FUNC_task_pt_regs");
    facts.ring_sleeps = absl::StrContains(name.version, "PREEMPT_RT") && HasSleepingRing(kernel);
    facts.bpf_find_vma = KnowsHelper(kernel, "BPF_FUNC_find_vma");
    facts.fentry = TryFentry(kernel);
  }
  facts.perf_event = TryPerfEvent();
  return facts;
}

bool Rung::gives(absl::string_view capability) const {
  return std::find(capabilities.begin(), capabilities.end(), capability) != capabilities.end();
}

std::vector<Rung> PlanProbes(const HostFacts& facts, const std::vector<std::string>& without) {
  std::vector<Rung> ladder;
  for (const RungRow& row : Rows()) {
    ladder.push_back(PlanRung(row, facts));
    if (const auto refused = facts.refused.find(std::string(kSignals)); refused != facts.refused.end())
      TakeAway(kSignals, row, {std::string(refused->second.message()), "none needed to count copies"}, &ladder.back());
  }
  Settle(&ladder);
  for (const std::string& name : without) Forbid(name, &ladder);
  return ladder;
}

std::vector<std::string> WithoutNames() {
  std::vector<std::string> names;
  for (const RungRow& row : Rows()) names.emplace_back(row.name);
  for (const absl::string_view name :
       {kFaults, kCopies, kFollow, kSignals, kWithoutCauses, kWithoutStacks, kWithoutStartMethods, kWithoutHangs})
    names.emplace_back(name);
  return names;
}

absl::Status CheckWithout(const std::vector<std::string>& names) {
  const std::vector<std::string> known = WithoutNames();
  const auto is_known = [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  const auto unknown = std::find_if_not(names.begin(), names.end(), is_known);
  if (unknown == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--without: there is no capability '", Printable(*unknown),
                   "'; give a rung that cowprof doctor lists, or faults, copies, follow, signals, causes, stacks, "
                   "start-methods or hangs"));
}

ChosenRungs ChooseRungs(const std::vector<Rung>& ladder) {
  ChosenRungs chosen = {.copies = FirstThatGives(kCopies, ladder)};
  if (chosen.copies == nullptr) return chosen;
  // fentry sees the outcome of a fault; another rung reports the fault itself. The others are independent.
  chosen.faults = chosen.copies->gives(kFaults) ? chosen.copies : FirstThatGives(kFaults, ladder);
  chosen.follow = chosen.copies->gives(kFollow) ? chosen.copies : FirstThatGives(kFollow, ladder);
  if (chosen.follow != nullptr && chosen.follow->gives(kSignals)) chosen.signals = chosen.follow;
  chosen.hugetlb = chosen.faults != nullptr && chosen.faults->name == kRungTracepoints &&
                   std::any_of(ladder.begin(), ladder.end(),
                               [](const Rung& rung) { return rung.name == kRungFentry && rung.usable; });
  return chosen;
}

}  // namespace cowprof
