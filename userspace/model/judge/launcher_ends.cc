#include "model/judge/launcher_ends.h"

#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "model/facts/bad_end.h"
#include "model/facts/roles.h"

namespace cowprof {
namespace {

// A signal to a process group reaches all its members within this time.
constexpr absl::Duration kOneAct = absl::Milliseconds(100);

bool OutlivedBy(const ProcessModel& launcher, const RunModel& model) {
  return absl::c_any_of(model.processes, [&](const ProcessModel& rank) {
    if (rank.role != Role::kRank || (rank.ended && *rank.ended <= *launcher.ended)) return false;
    const ProcessModel* above = model.Find(rank.parent);
    while (above != nullptr && above->index != launcher.index)
      above = above->parent < above->index ? model.Find(above->parent) : nullptr;
    return above != nullptr;
  });
}

}  // namespace

std::vector<LauncherEnd> LauncherEndsIn(const RunModel& model, const Findings& findings) {
  std::vector<LauncherEnd> ends;
  for (const int index : LaunchersOf(model)) {
    const ProcessModel& launcher = *model.Find(index);
    if (!launcher.ended || !launcher.exit) continue;
    const PostMortem& end = findings.EndOf(launcher);
    const bool trains = index == 0 && model.target_is_rank;
    const bool is_rank = trains || (index == 0 && model.target_is_other_rank);
    if (end.badly) {
      ends.push_back({&launcher, end.text});
    } else if (!launcher.exit->signaled && launcher.exit->code != 0 && !WasAskedToEnd(launcher) &&
               OutlivedBy(launcher, model)) {
      ends.push_back(
          {&launcher, absl::StrCat(end.text, is_rank ? ", before the other ranks ended" : ", before its ranks ended")});
    } else if (trains && TrainerFailed(launcher)) {
      ends.push_back({&launcher, end.text});
    }
  }
  absl::c_stable_sort(ends,
                      [](const LauncherEnd& a, const LauncherEnd& b) { return *a.process->ended < *b.process->ended; });
  return ends;
}

bool EndedTogether(const FatalSignal& sent, const std::optional<FatalSignal>& of_launcher, pid_t launcher,
                   absl::Duration ended) {
  if (sent.sender == launcher) return sent.t >= ended - kOneAct;
  return of_launcher && sent.signal == of_launcher->signal && sent.sender == of_launcher->sender &&
         absl::AbsDuration(sent.t - of_launcher->t) <= kOneAct;
}

bool EndedTogether(const ProcessModel& process, const LauncherEnd& launcher, const Findings& findings) {
  const std::optional<FatalSignal>& sent = findings.EndOf(process).sent;
  return sent && EndedTogether(*sent, findings.EndOf(*launcher.process).sent, launcher.process->id.pid,
                               *launcher.process->ended);
}

}  // namespace cowprof
