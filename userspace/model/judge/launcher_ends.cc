#include "model/judge/launcher_ends.h"

#include <functional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "model/facts/bad_end.h"
#include "model/facts/roles.h"

namespace cowprof {
namespace {

// A signal to a process group reaches all its members within this time.
constexpr absl::Duration kOneAct = absl::Milliseconds(100);

// When the last rank below each process ended that has any; infinite: one still runs.
absl::flat_hash_map<int, absl::Duration> LastEndsBelow(const RunModel& model) {
  std::vector<std::pair<absl::Duration, int>> ranks;  // end and parent
  for (const ProcessModel& process : model.processes) {
    if (process.role == Role::kRank)
      ranks.emplace_back(process.ended.value_or(absl::InfiniteDuration()), process.parent);
  }
  absl::c_sort(ranks, std::greater<>());
  absl::flat_hash_map<int, absl::Duration> ends;
  for (const auto& [ended, parent] : ranks) {
    const ProcessModel* above = model.Find(parent);
    // Who was met before has a later end, and so has all above it.
    while (above != nullptr && ends.try_emplace(above->index, ended).second)
      above = above->parent < above->index ? model.Find(above->parent) : nullptr;
  }
  return ends;
}

}  // namespace

std::vector<LauncherEnd> LauncherEndsIn(const RunModel& model, const Findings& findings) {
  std::vector<LauncherEnd> ends;
  const absl::flat_hash_map<int, absl::Duration> last_ends = LastEndsBelow(model);
  const auto is_outlived = [&](const ProcessModel& launcher) {
    const auto last = last_ends.find(launcher.index);
    return last != last_ends.end() && last->second > *launcher.ended;
  };
  for (const int index : LaunchersOf(model)) {
    const ProcessModel& launcher = *model.Find(index);
    if (!launcher.ended || !launcher.exit) continue;
    const PostMortem& end = findings.EndOf(launcher);
    const bool trains = index == 0 && model.target_is_rank;
    const bool is_rank = trains || (index == 0 && model.target_is_other_rank);
    if (end.badly) {
      ends.push_back({&launcher, end.text});
    } else if (!launcher.exit->signaled && launcher.exit->code != 0 && !WasAskedToEnd(launcher) &&
               is_outlived(launcher)) {
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
