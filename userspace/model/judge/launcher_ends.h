// How launchers ended, and who ended with them. Pure.
#ifndef COWPROF_MODEL_JUDGE_LAUNCHER_ENDS_H_
#define COWPROF_MODEL_JUDGE_LAUNCHER_ENDS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/judge/findings.h"

namespace cowprof {

struct LauncherEnd {
  const ProcessModel* process = nullptr;
  std::string text;  // "killed by SIGKILL from bash (pid 77)", "exit 1, before its ranks ended"
};
// Of the launchers that ended badly, or by an error status while one of their ranks still ran, in order of time. A
// launcher that outlives its ranks only passes their status on, unless it is a rank itself.
std::vector<LauncherEnd> LauncherEndsIn(const RunModel& model, const Findings& findings);

// Whether a process was ended together with its launcher: by the launcher's death (PR_SET_PDEATHSIG), or by the signal
// that the launcher got, from the same sender at the same moment, as of a process group. `ended`: the launcher. Both
// times are of one clock.
bool EndedTogether(const FatalSignal& sent, const std::optional<FatalSignal>& of_launcher, pid_t launcher,
                   absl::Duration ended);
bool EndedTogether(const ProcessModel& process, const LauncherEnd& launcher, const Findings& findings);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_LAUNCHER_ENDS_H_
