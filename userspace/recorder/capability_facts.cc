// The table, and which of its capabilities are effective.
#include "recorder/capability_facts.h"

#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "posix/rights.h"
#include "source/namespaces.h"
#include "source/rights_remedy.h"

namespace cowprof {
namespace {

constexpr struct {
  int number;
  const char *name, *gives, *without;
} kTable[] = {
    {kCapBpf, "CAP_BPF", "loading the probes", "no exact counts"},
    {kCapPerfmon, "CAP_PERFMON", "probes that see faults and read kernel memory", "no exact counts"},
    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "memory of other users' processes, and of those that changed their user",
     "no causes, types and lines of theirs; before Linux 6.15 only your own processes"},
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "their /proc files that only the owner may open",
     "only your own processes"},
    {CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "page frames: which pages are the parent's alone",
     "private and shared pages are told apart, but not what they are shared with"},
    {CAP_IPC_LOCK, "CAP_IPC_LOCK", "recorder memory that stays resident when the host's runs out",
     "it may be late for what it should record"},
};

// What the kernel accepts for it: bpf_capable(), perfmon_capable(), generic_permission(). Of CAP_DAC_OVERRIDE only root
// makes use: see WithWhatRootLacks().
CapabilitySet AnyOf(int number) {
  if (number == kCapBpf || number == kCapPerfmon) return SetOf({number, CAP_SYS_ADMIN});
  if (number == CAP_DAC_READ_SEARCH && geteuid() == 0) return SetOf({number, CAP_DAC_OVERRIDE});
  return SetOf({number});
}

// docs/privileges.md says what each is for: these are seldom worth their power.
bool IsWorthAsking(absl::string_view name) { return name != "CAP_SYS_ADMIN" && name != "CAP_IPC_LOCK"; }

}  // namespace

std::vector<CapabilityFact> ReadCapabilityFacts() {
  const CapabilitySet held = HasHostUsers() ? EffectiveCapabilities() : 0;
  std::vector<CapabilityFact> facts;
  for (const auto& row : kTable) facts.push_back({row.name, row.gives, row.without, (held & AnyOf(row.number)) != 0});
  return facts;
}

std::string CapabilityText(const std::vector<CapabilityFact>& facts) {
  std::string out = "\n  capabilities\n";
  for (const CapabilityFact& fact : facts) {
    absl::StrAppendFormat(&out, "  %-20s %-8s %s%s%s\n", fact.name, fact.held ? "held" : "missing", fact.gives,
                          fact.held ? "" : "; without: ", fact.held ? "" : fact.without);
  }
  std::vector<std::string> missing;
  for (const CapabilityFact& fact : facts) {
    if (!fact.held && IsWorthAsking(fact.name)) missing.push_back(fact.name);
  }
  if (missing.empty()) return out;
  const Caller caller = ReadCaller();
  absl::StrAppend(&out, "      do:  ", RightsRemedy(caller, missing), "\n");
  if (caller.root || !caller.host_users || caller.container != Container::kNone) return out;
  std::error_code ignored;
  return absl::StrCat(out, "      or:  sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep ",
                      ShellQuoted(std::filesystem::read_symlink("/proc/self/exe", ignored).string()), "\n",
                      "           (who may run that file may then read every process: docs/privileges.md)\n");
}

}  // namespace cowprof
