// Runs the command of --on-alert, without a shell: one at a time, with a gap between runs, never for longer than its
// limit. Owns the hook's command line, environment and process group; hook_process.h owns the process that has the
// rights for it. A hook that fails is reported once and changes nothing else.
#ifndef COWPROF_SINK_HOOK_ALERT_HOOK_H_
#define COWPROF_SINK_HOOK_ALERT_HOOK_H_

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/facts/run_model.h"
#include "model/judge/alert.h"

namespace cowprof {

// Splits a command line into words as a shell does: blanks, '...', "..." and backslashes. Expands nothing.
absl::StatusOr<std::vector<std::string>> SplitWords(absl::string_view text);

// Returns the absolute path of the program that `words` name, if it can be run and nobody but root and `user` can
// change it, files among its arguments (such as a script), or a directory above any of these (except sticky ones).
absl::StatusOr<std::string> CheckHook(const std::vector<std::string>& words, uid_t user);

struct HookLimits {
  absl::Duration time = absl::Seconds(10);  // then its process group is killed
  absl::Duration gap = absl::Seconds(1);    // between two starts
  size_t waiting = 16;                      // alerts in the queue; more are dropped and counted
};

// What one run gets. AlertHook fixes the names of its variables: a recorder that was taken over can choose their
// values, but can't set any other variable (LD_PRELOAD, BASH_ENV).
inline constexpr const char* kHookVariables[] = {"COWPROF_ALERT_RULE",     "COWPROF_ALERT_KIND",
                                                 "COWPROF_ALERT_NAME",     "COWPROF_ALERT_LIMIT",
                                                 "COWPROF_ALERT_USED",     "COWPROF_ALERT_ETA_SECONDS",
                                                 "COWPROF_ALERT_CAUSE",    "COWPROF_ALERT_TEXT",
                                                 "COWPROF_ALERT_ADVICE",   "COWPROF_PID",
                                                 "COWPROF_WORKER_PID",     "COWPROF_ALERT_DIAGNOSIS",
                                                 "COWPROF_ALERT_HEADLINE", "COWPROF_ALERT_CULPRIT"};
struct HookRun {
  std::string json;                                           // for stdin
  std::array<std::string, std::size(kHookVariables)> values;  // of kHookVariables
};
HookRun HookRunFor(const Alert& alert, const RunModel& model);

class AlertHook {
 public:
  // `signals`: the signal mask of the hook. `report`: gets one sentence when it fails.
  static absl::StatusOr<std::unique_ptr<AlertHook>> Create(absl::string_view command, const sigset_t& signals,
                                                           std::function<void(const std::string&)> report,
                                                           const HookLimits& limits = {});
  ~AlertHook();  // kills a hook that runs

  void Take(HookRun run);
  // Call at the end: runs the queued ones, for as long as one hook may take in total.
  void Finish();
  // Checks on the hook that runs and starts the next one. Call a few times a second while busy().
  void Poll();
  bool busy() const { return pid_ != 0 || !waiting_.empty(); }

 private:
  AlertHook(std::vector<std::string> words, const sigset_t& signals, std::function<void(const std::string&)> report,
            const HookLimits& limits)
      : words_(std::move(words)), signals_(signals), report_(std::move(report)), limits_(limits) {}
  absl::Status Start(const HookRun& run);
  void Kill();
  void Reap(bool wait);
  void Report(const std::string& what);

  std::vector<std::string> words_;
  sigset_t signals_;
  std::function<void(const std::string&)> report_;
  HookLimits limits_;
  std::deque<HookRun> waiting_;
  pid_t pid_ = 0;                                       // of the hook that runs, and of its process group; 0: none
  std::optional<absl::Duration> killed_after_;          // its start; absent: it was not
  absl::Duration started_ = -absl::InfiniteDuration();  // on CLOCK_BOOTTIME
  bool reported_ = false;
  uint64_t dropped_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_HOOK_ALERT_HOOK_H_
