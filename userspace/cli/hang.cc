// `cowprof hang PID [--json]`: which processes of a tree wait for what no living thread will ever release. Looks twice,
// then into those that did not move. Owns the keys of cowprof.hang/1 that timeline/json_hangs.h does not.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/commands.h"
#include "model/format.h"
#include "python/interpreter.h"
#include "python/process_memory.h"
#include "recorder/hang_look.h"
#include "recorder/target.h"
#include "sink/report/hang_format.h"
#include "source/namespaces.h"
#include "source/proc_tree.h"
#include "source/procfs.h"
#include "source/rights_remedy.h"
#include "source/wait_state.h"
#include "timeline/json_fields.h"
#include "timeline/json_hangs.h"

namespace cowprof {
namespace {

// Threads that wake each other look alike in two looks 20 ms apart in none of thousands of tries (docs/hangs.md).
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(100);

// Why the locks and stacks of the Python that the process runs are not read; "": they are, or it runs none.
std::string PythonNotRead(const ProcFs& proc, pid_t pid) {
  ProgramFiles files;
  const ProcessMemory memory(pid, proc, &files);
  const absl::StatusOr<Interpreter> python = FindInterpreter(proc, pid, memory);
  if (absl::IsNotFound(python.status())) return "";
  if (!python.ok()) return Printable(python.status().message(), 300);
  return python->free_threaded ? absl::StrCat("Python ", python->version, " is a free-threaded build") : "";
}

// Processes by why their Python is not read: most often one reason for all.
std::map<std::string, std::vector<pid_t>> PythonsNotRead(const ProcFs& proc, const ThreadsLook& look) {
  std::map<std::string, std::vector<pid_t>> pids;
  for (const auto& [pid, waits] : look.processes) {
    if (std::string why = PythonNotRead(proc, pid); !why.empty()) pids[std::move(why)].push_back(pid);
  }
  for (auto& [why, processes] : pids) std::sort(processes.begin(), processes.end());
  return pids;
}

Json ByWhyJson(const std::map<std::string, std::vector<pid_t>>& pids) {
  Json rows = Json::array();
  for (const auto& [why, processes] : pids) rows.push_back({{"pids", processes}, {"why", why}});
  return rows;
}

// No row of a hang: it has no proof.
Json SuspectsJson(const std::vector<Hang>& suspects) {
  Json rows = HangsJson(suspects);
  for (Json& row : rows) {
    for (const char* key : {"proof", "by_fork", "holder", "victims", "fix"}) row.erase(key);
  }
  return rows;
}

std::string PythonsNotReadText(const std::map<std::string, std::vector<pid_t>>& pids) {
  std::string out;
  for (const auto& [why, processes] : pids) {
    absl::StrAppend(&out, "Not read: Python's locks and stacks in ", absl::StrJoin(processes, ", "), " (", why,
                    "). A hang there may not be found.\n");
  }
  return out;
}

int FailWithoutALook(const ProcFs& proc, pid_t pid) {
  const absl::Status target = ReadThreadWaits(proc, pid).status();
  if (absl::IsNotFound(target)) return Fail(kNoProcess, absl::StrCat("process ", pid, " has just ended"));
  const std::string refusal = absl::StrCat("can't see what the threads of process ", pid, " wait for");
  if (absl::IsPermissionDenied(target)) {
    return Fail(kNoProcess, absl::StrCat(refusal, " (/proc/PID/task/TID/syscall); ",
                                         RightsRemedy(ReadCaller(), {"CAP_SYS_PTRACE"})));
  }
  return Fail(kHostCannot,
              absl::StrCat(refusal, ": ", target.ok() ? "it changed during both looks, try again" : target.message()));
}

}  // namespace

int FindHang(const Options& options) {
  const ProcFs proc;
  if (absl::Status status = CheckProc(proc); !status.ok()) return Fail(kHostCannot, status.message());
  if (absl::Status status = CheckTarget(proc, options.pid); !status.ok()) return FailOnTarget(status);
  const std::vector<pid_t> family = FamilyOf(proc, options.pid);
  ThreadsLook before = LookAtThreads(proc, family);
  if (before.processes.empty()) before = LookAtThreads(proc, family);  // it may have changed during the first one
  if (before.processes.empty()) return FailWithoutALook(proc, options.pid);
  absl::SleepFor(kBetweenLooks);
  ElfCache elf_cache;
  std::vector<Hang> suspects;
  const std::vector<Hang> hangs = FindHangs(proc, family, before, &elf_cache, nullptr, &suspects);
  const std::map<std::string, std::vector<pid_t>> not_read = PythonsNotRead(proc, before);
  size_t threads = 0;
  for (const auto& [pid, waits] : before.processes) threads += waits.size();
  std::string text;
  if (options.json) {
    const Json json = {{"schema", "cowprof.hang/1"},
                       {"version", COWPROF_VERSION},
                       {"pid", options.pid},
                       {"processes", before.processes.size()},
                       {"threads", threads},
                       {"not_permitted", before.not_permitted},
                       {"not_looked_at", ByWhyJson(before.not_looked_at)},
                       {"python_not_read", ByWhyJson(not_read)},
                       {"hangs", HangsJson(hangs)},
                       {"suspects", SuspectsJson(suspects)}};
    text = absl::StrCat(Dump(json, 2), "\n");
  } else {
    text = HangsText(hangs);
    if (hangs.empty()) {
      text = absl::StrCat("No hang is proven: looked at ", before.processes.size(),
                          before.processes.size() == 1 ? " process" : " processes", " with ", Plural(threads, "thread"),
                          ".\n");
    }
    text += SuspectsText(suspects);
    for (const auto& [why, pids] : before.not_looked_at)
      absl::StrAppend(&text, "Not looked at: ", absl::StrJoin(pids, ", "), " (", why,
                      "). A hang there is not found.\n");
    text += PythonsNotReadText(not_read);
    if (!before.not_permitted.empty())
      absl::StrAppend(&text, "Not permitted to read ", absl::StrJoin(before.not_permitted, ", "), ": ",
                      RightsRemedy(ReadCaller(), {"CAP_SYS_PTRACE"}), "\n");
  }
  return PrintToStdout(text);
}

}  // namespace cowprof
