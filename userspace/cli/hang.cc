// `cowprof hang PID [--json]`: which processes of a tree wait for what no living thread will ever release. Looks twice,
// then into those that did not move. Owns the keys of cowprof.hang/1 that timeline/json_hangs.h does not.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/commands.h"
#include "model/format.h"
#include "recorder/hang_look.h"
#include "recorder/target.h"
#include "sink/report/hang_format.h"
#include "source/namespaces.h"
#include "source/procfs.h"
#include "source/shm.h"
#include "timeline/json_fields.h"
#include "timeline/json_hangs.h"

namespace cowprof {
namespace {

// Threads that wake each other look alike in two looks 20 ms apart in none of thousands of tries (docs/hangs.md).
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(100);

}  // namespace

int FindHang(const Options& options) {
  const ProcFs proc;
  if (absl::Status status = CheckProc(proc); !status.ok()) return Fail(kHostCannot, status.message());
  if (absl::Status status = CheckTarget(proc, options.pid); !status.ok()) return Fail(kNoProcess, status.message());
  const std::vector<pid_t> family = FamilyOf(proc, options.pid);
  const ThreadsLook before = LookAtThreads(proc, family);
  if (before.processes.empty()) {
    return Fail(kNoProcess, absl::StrCat("can't see what the threads of process ", options.pid,
                                         " wait for (/proc/PID/task/TID/syscall); run cowprof with sudo"));
  }
  absl::SleepFor(kBetweenLooks);
  ElfCache elf_cache;
  const std::vector<Hang> hangs = FindHangs(proc, family, before, &elf_cache);
  size_t threads = 0;
  for (const auto& [pid, waits] : before.processes) threads += waits.size();
  std::string text;
  if (options.json) {
    const Json json = {{"schema", "cowprof.hang/1"}, {"version", COWPROF_VERSION},
                       {"pid", options.pid},         {"processes", before.processes.size()},
                       {"threads", threads},         {"not_permitted", before.not_permitted},
                       {"hangs", HangsJson(hangs)}};
    text = absl::StrCat(Dump(json, 2), "\n");
  } else {
    text = HangsText(hangs);
    if (hangs.empty()) {
      text = absl::StrCat("No hang is proven: looked at ", before.processes.size(),
                          before.processes.size() == 1 ? " process" : " processes", " with ", Plural(threads, "thread"),
                          ".\n");
    }
    if (!before.not_permitted.empty())
      absl::StrAppend(&text, "Not permitted to read ", absl::StrJoin(before.not_permitted, ", "),
                      ": run cowprof with sudo.\n");
  }
  std::fputs(text.c_str(), stdout);
  return kDone;
}

}  // namespace cowprof
