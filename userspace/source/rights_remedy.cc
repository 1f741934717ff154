// Knows a container by the files that engines leave in it.
#include "source/rights_remedy.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "model/format.h"
#include "source/namespaces.h"
#include "source/procfs.h"

namespace cowprof {
namespace {

constexpr size_t kLongestLine = 1000;

Container ContainerOfSelf() {
  // A virtual machine that was made from an image has its files, too. With --pid=host a container still has a name.
  if (HasHostPids() && HasHostName()) return Container::kNone;
  if (getenv("KUBERNETES_SERVICE_HOST") != nullptr) return Container::kKubernetes;
  if (access("/run/.containerenv", F_OK) == 0) return Container::kPodman;
  if (access("/.dockerenv", F_OK) == 0) return Container::kDocker;
  return Container::kUnknown;
}

constexpr std::pair<absl::string_view, int> kNumbers[] = {{"CAP_BPF", kCapBpf},
                                                          {"CAP_PERFMON", kCapPerfmon},
                                                          {"CAP_SYS_PTRACE", CAP_SYS_PTRACE},
                                                          {"CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH},
                                                          {"CAP_SYS_ADMIN", CAP_SYS_ADMIN},
                                                          {"CAP_IPC_LOCK", CAP_IPC_LOCK}};

bool RootHas(const Caller& caller, const std::vector<std::string>& capabilities) {
  return std::all_of(std::begin(kNumbers), std::end(kNumbers), [&](const auto& row) {
    const auto& [name, number] = row;
    return (caller.bounding & SetOf({number})) != 0 ||
           std::find(capabilities.begin(), capabilities.end(), name) == capabilities.end();
  });
}

// With what a container of this kind must be started.
std::string ContainerLine(Container kind, bool root, const std::vector<std::string>& names) {
  const char* const user = root ? "" : "--user 0 ";
  switch (kind) {
    case Container::kDocker:
      return absl::StrCat("docker run ", user, "--cap-add ", absl::StrJoin(names, " --cap-add "), " ...");
    case Container::kPodman:
      // The seccomp profile of podman 4 lets only CAP_SYS_ADMIN call bpf(2).
      return absl::StrCat(
          "as root, podman run ", user, "--cap-add ", absl::StrJoin(names, ","),
          std::find(names.begin(), names.end(), "BPF") == names.end() ? "" : " --security-opt seccomp=unconfined",
          " ...");
    case Container::kKubernetes:
      return absl::StrCat("securityContext: {", root ? "" : "runAsUser: 0, ", "capabilities: {add: [",
                          absl::StrJoin(names, ", "), "]}}");
    case Container::kNone:
    case Container::kUnknown:
      break;
  }
  std::vector<std::string> lines;
  for (const auto& [engine, other] : {std::pair("Docker", Container::kDocker), std::pair("Podman", Container::kPodman),
                                      std::pair("Kubernetes", Container::kKubernetes)})
    lines.push_back(absl::StrCat(engine, ": ", ContainerLine(other, root, names)));
  return absl::StrJoin(lines, "; ");
}

}  // namespace

Caller ReadCaller() {
  Caller caller = {.root = geteuid() == 0, .host_users = HasHostUsers(), .container = ContainerOfSelf()};
  const absl::StatusOr<std::string> line = ReadSmallFile("/proc/self/cmdline");
  if (line.ok() && !line->empty())
    caller.words = absl::StrSplit(absl::StripSuffix(*line, absl::string_view("\0", 1)), '\0');
  for (const auto& [name, number] : kNumbers) {
    if (prctl(PR_CAPBSET_READ, number, 0, 0, 0) != 1) caller.bounding &= ~SetOf({number});
  }
  return caller;
}

std::string ShellQuoted(absl::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(c) || absl::string_view("_-+=./:,%@").find(c) != absl::string_view::npos;
  });
  if (plain) return std::string(word);
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

std::string SudoLine(const Caller& caller) {
  if (caller.words.empty()) return "";
  std::vector<std::string> words = {"sudo"};
  // sudo has a PATH of its own, in which CMD may be another program.
  if (std::find(caller.words.begin(), caller.words.end(), "--") != caller.words.end())
    words.insert(words.end(), {"env", "\"PATH=$PATH\""});
  for (const std::string& word : caller.words) words.push_back(ShellQuoted(word));
  // Found on the PATH, in which sudo may not look.
  std::string& tool = words[words.size() - caller.words.size()];
  if (tool.find('/') == std::string::npos) tool = absl::StrCat("$(command -v ", tool, ")");
  std::string line = absl::StrJoin(words, " ");
  return line.size() > kLongestLine || Printable(line, kLongestLine) != line ? "" : line;
}

std::string RightsRemedy(const Caller& caller, const std::vector<std::string>& capabilities) {
  if (!caller.host_users) {
    return caller.container == Container::kPodman
               ? "on the host, run: sudo $(command -v cowprof) --attach "
                 "\"$(podman inspect -f '{{.State.Pid}}' NAME)\""
               : "run cowprof as root on the host, from where it can see into containers: "
                 "sudo $(command -v cowprof) --attach PID";
  }
  std::vector<std::string> names;
  for (const absl::string_view name : capabilities) names.emplace_back(absl::StripPrefix(name, "CAP_"));
  if (caller.container != Container::kNone && (caller.root || !RootHas(caller, capabilities))) {
    return absl::StrCat("start the container with that capability (--cap-add): ",
                        ContainerLine(caller.container, caller.root, names));
  }
  if (caller.root) return "run cowprof as a root that has that capability; this one's bounding set lacks it";
  const std::string line = SudoLine(caller);
  const std::string sudo = line.empty() ? "run cowprof with sudo, and the same arguments" : absl::StrCat("run: ", line);
  if (caller.container == Container::kNone) return sudo;
  return absl::StrCat(sudo, "; or, if the container has no sudo, start it as root: ",
                      ContainerLine(caller.container, /*root=*/false, names));
}

}  // namespace cowprof
