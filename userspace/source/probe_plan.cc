// Reads what the host allows, and decides. See probe_plan.h.
#include "source/probe_plan.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "posix/fd.h"
#include "source/procfs.h"

namespace cowprof {
namespace {

constexpr int kCapPerfmon = 38, kCapBpf = 39;  // since 5.8; Debian 12's headers know them, older ones do not

uint64_t EffectiveCapabilities() {
  const absl::StatusOr<std::string> status = ReadSmallFile("/proc/self/status");
  uint64_t bits = 0;
  if (!status.ok()) return 0;
  for (absl::string_view line : absl::StrSplit(*status, '\n')) {
    if (absl::ConsumePrefix(&line, "CapEff:\t")) static_cast<void>(absl::SimpleHexAtoi(line, &bits));
  }
  return bits;
}

// An fentry program that does nothing, on the function that decides between copy and reuse.
absl::Status TryFentry() {
  const int function = libbpf_find_vmlinux_btf_id("do_wp_page", BPF_TRACE_FENTRY);
  if (function < 0) return absl::ErrnoToStatus(-function, "find do_wp_page in the kernel's BTF");
  const bpf_insn body[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0}, {.code = BPF_JMP | BPF_EXIT}};
  LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FENTRY,
              .attach_btf_id = static_cast<__u32>(function));
  Fd program(bpf_prog_load(BPF_PROG_TYPE_TRACING, "cowprof_try", "GPL", body, 2, &options));
  if (!program.ok()) return absl::ErrnoToStatus(errno, "load fentry/do_wp_page");
  Fd link(bpf_raw_tracepoint_open(nullptr, program.fd()));
  return link.ok() ? absl::OkStatus() : absl::ErrnoToStatus(errno, "attach fentry/do_wp_page");
}

// The first namespaces have fixed inode numbers, include/linux/proc_ns.h. Kernels without time namespaces have no such
// link.
bool InHostNamespaces() {
  const auto is_first = [](const char* path, ino_t first) {
    struct stat file;
    return stat(path, &file) != 0 || file.st_ino == first;
  };
  return is_first("/proc/self/ns/pid", 0xEFFFFFFC) && is_first("/proc/self/ns/time", 0xEFFFFFFA);
}

std::string MissingCapabilities(const HostFacts& facts) {
  std::string missing;
  const auto need = [&](bool held, const char* name) {
    if (!held) absl::StrAppend(&missing, missing.empty() ? "" : ", ", name);
  };
  need(facts.cap_bpf || facts.cap_sys_admin, "CAP_BPF");
  need(facts.cap_perfmon || facts.cap_sys_admin, "CAP_PERFMON");
  need(facts.cap_sys_ptrace, "CAP_SYS_PTRACE");
  return missing;
}

// ---- The ladder: one function a rung ----

Rung PlanTracepoints(const HostFacts& facts) {
  Rung rung = {.name = std::string(kRungTracepoints),
               .capabilities = {"faults", "copies", "follow", "signals"},
               .exactness = Exactness::kExact};
  const std::string missing = MissingCapabilities(facts);
  if (!facts.kernel_btf) {
    rung.reason = "this kernel has no BTF (/sys/kernel/btf/vmlinux can't be read)";
    rung.remedy = "use a kernel with CONFIG_DEBUG_INFO_BTF, or mount /sys in the container";
  } else if (!facts.fault_tracepoint) {
    rung.reason = absl::StrCat("this kernel has no tracepoint page_fault_user (", facts.architecture, ")");
    rung.remedy = "none on this architecture; x86-64 has it";
  } else if (!facts.host_namespaces) {
    rung.reason =
        "cowprof runs in a pid or time namespace of its own, where processes have other ids than the probes see";
    rung.remedy =
        "run cowprof on the host (it looks into containers from there), or start the container with --pid=host";
  } else if (!missing.empty()) {
    rung.reason = absl::StrCat("not allowed: ", missing, " missing");
    rung.remedy = "run with sudo, or in a container with --cap-add for each of them";
  } else if (const auto refused = facts.refused.find(rung.name); refused != facts.refused.end()) {
    rung.reason = std::string(refused->second.message());
    rung.remedy = "the kernel or the container's seccomp profile refuses bpf(2); run cowprof on the host";
  } else {
    rung.usable = true;
  }
  return rung;
}

Rung PlanFentry(const HostFacts& facts) {
  Rung rung = {.name = std::string(kRungFentry), .capabilities = {"copies"}, .exactness = Exactness::kExact};
  rung.reason = facts.fentry.ok() ? "this host allows it, but this version of cowprof does not count with it"
                                  : std::string(facts.fentry.message());
  rung.remedy = "none needed where btf-tracepoints is usable";
  return rung;
}

// Always worth a try: whether the target's page map may be read depends on the target.
Rung PlanPageMap(const HostFacts& facts) {
  Rung rung = {.name = std::string(kRungPageMap),
               .capabilities = {"faults", "copies", "follow"},
               .exactness = Exactness::kPageMap};
  const auto refused = facts.refused.find(rung.name);
  rung.usable = refused == facts.refused.end();
  if (rung.usable) return rung;
  rung.reason = std::string(refused->second.message());
  rung.remedy = "run cowprof as the user that the process runs as, in the same container; then no privilege is needed";
  return rung;
}

}  // namespace

HostFacts ReadHostFacts() {
  HostFacts facts;
  utsname name = {};
  uname(&name);
  facts.kernel = name.release;
  facts.architecture = name.machine;
  facts.page_bytes = sysconf(_SC_PAGESIZE);
  facts.cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.host_namespaces = InHostNamespaces();
  const uint64_t held = EffectiveCapabilities();
  const auto has = [&](int capability) { return (held >> capability & 1) != 0; };
  facts.cap_bpf = has(kCapBpf);
  facts.cap_perfmon = has(kCapPerfmon);
  facts.cap_sys_ptrace = has(CAP_SYS_PTRACE);
  facts.cap_sys_admin = has(CAP_SYS_ADMIN);
  libbpf_set_print(nullptr);
  if (btf* kernel = btf__load_vmlinux_btf()) {
    facts.kernel_btf = true;
    facts.fault_tracepoint = btf__find_by_name_kind(kernel, "btf_trace_page_fault_user", BTF_KIND_TYPEDEF) > 0;
    btf__free(kernel);
  }
  facts.fentry = TryFentry();
  return facts;
}

std::vector<Rung> PlanProbes(const HostFacts& facts, const std::vector<std::string>& without) {
  std::vector<Rung> ladder = {PlanTracepoints(facts), PlanFentry(facts), PlanPageMap(facts)};
  for (Rung& rung : ladder) {
    for (const std::string& name : without) {
      const bool forbids = name == rung.name || std::find(rung.capabilities.begin(), rung.capabilities.end(), name) !=
                                                    rung.capabilities.end();
      if (!forbids || !rung.usable) continue;
      rung.usable = false;
      rung.reason = absl::StrCat("forbidden by --without ", name);
      rung.remedy = "leave --without away";
    }
  }
  return ladder;
}

bool IsKnownCapability(absl::string_view name) {
  if (name == kWithoutCauses || name == kWithoutStacks) return true;
  for (const Rung& rung : PlanProbes(HostFacts(), {})) {
    if (name == rung.name ||
        std::find(rung.capabilities.begin(), rung.capabilities.end(), name) != rung.capabilities.end())
      return true;
  }
  return false;
}

const Rung* ChosenRung(const std::vector<Rung>& ladder) {
  const auto chosen = std::find_if(ladder.begin(), ladder.end(), [](const Rung& rung) { return rung.usable; });
  return chosen == ladder.end() ? nullptr : &*chosen;
}

}  // namespace cowprof
