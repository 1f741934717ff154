// `cowprof shm [--json] [PID]`: looks once at /dev/shm as that process sees it, and at who owns each segment. Owns the
// keys of cowprof.shm/1 that timeline/json_shm.h does not.
#include "model/facts/shm.h"

#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "recorder/target.h"
#include "sink/report/shm_format.h"
#include "source/namespaces.h"
#include "source/proc_tree.h"
#include "source/procfs.h"
#include "source/shm.h"
#include "timeline/json_fields.h"
#include "timeline/json_shm.h"

namespace cowprof {
namespace {

constexpr size_t kRows = 100;

std::map<pid_t, std::string> NamesOfOwners(const ProcFs& proc, const ShmSample& sample) {
  std::map<pid_t, std::string> names;
  for (const ShmSegment& segment : sample.segments) {
    for (const pid_t pid : OwnersOf(segment)) {
      if (names.contains(pid)) continue;
      const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
      if (stat.ok()) names[pid] = stat->comm;
    }
  }
  return names;
}

Json DocumentOf(const ShmSample& sample, pid_t pid, const std::map<pid_t, std::string>& names) {
  Json json = {
      {"schema", "cowprof.shm/1"}, {"version", COWPROF_VERSION}, {"pid", pid != 0 ? Json(pid) : Json(nullptr)}};
  json.update(ShmJson(sample, sample.segments.size()));
  Json& processes = json["processes"] = Json::array();
  for (const auto& [owner, name] : names) processes.push_back({{"pid", owner}, {"name", name}});
  return json;
}

}  // namespace

int Shm(const Options& options) {
  const ProcFs proc;
  if (absl::Status status = CheckProc(proc); !status.ok()) return Fail(kHostCannot, status.message());
  if (options.pid != 0) {
    if (absl::Status status = CheckTarget(proc, options.pid); !status.ok()) return FailOnTarget(status);
  }
  ShmLookPlan plan = {.viewer = options.pid, .foreign = options.pid == 0};
  if (options.pid != 0) plan.first = FamilyOf(proc, options.pid);
  absl::StatusOr<ShmLook> look = ShmLook::Begin(proc, plan);
  if (!look.ok())
    return Fail(kHostCannot,
                absl::StrCat(look.status().message(), "; mount a tmpfs there, or ask about another process"));
  look->Run(absl::InfiniteDuration());
  ShmSample sample = look->Take();
  const std::map<pid_t, std::string> names = NamesOfOwners(proc, sample);
  std::string text;
  if (options.json) {
    text = absl::StrCat(Dump(DocumentOf(sample, options.pid, names), 2), "\n");
  } else {
    text = absl::StrCat(sample.mount,
                        options.pid != 0 ? absl::StrCat(" as process ", options.pid, " sees it") : " of this shell",
                        "\n", ShmText(sample, kRows, names));
  }
  return PrintToStdout(text);
}

}  // namespace cowprof
