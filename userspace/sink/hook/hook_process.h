// The process that runs the hook of --on-alert. It is forked before cowprof gives up its rights: a hook may do what its
// user may, while the recorder, which reads data that the target chose, can't start anything. It runs only the command
// that it was started with, and receives only what HookRunFor() returns. No tick waits for it.
#ifndef COWPROF_SINK_HOOK_HOOK_PROCESS_H_
#define COWPROF_SINK_HOOK_HOOK_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/facts/run_model.h"
#include "posix/fd.h"
#include "sink/hook/alert_hook.h"

namespace cowprof {

class HookProcess {
 public:
  // The hook runs as the user who called cowprof, directly or through sudo. Arguments as for AlertHook::Create().
  static absl::StatusOr<std::unique_ptr<HookProcess>> Start(absl::string_view command, const sigset_t& signals,
                                                            std::function<void(const std::string&)> report,
                                                            const HookLimits& limits = {});
  ~HookProcess();  // the process ends at once, and so does a hook that runs, unless that became another user

  // Runs the hook for each alert, except those that say that one is over. An alert that can't be passed to the process
  // is dropped and counted.
  void Take(const std::vector<Alert>& alerts, const RunModel& model);
  // Passes on what the process reports.
  void Poll();
  // Call at the end: see AlertHook::Finish(). Reports how many alerts were dropped.
  void Finish();

 private:
  HookProcess(pid_t pid, Fd socket, std::function<void(const std::string&)> report, const HookLimits& limits)
      : pid_(pid), socket_(std::move(socket)), report_(std::move(report)), limits_(limits) {}
  bool Listen(int wait_ms);
  void Reap();

  pid_t pid_;
  Fd socket_;  // carries packets: runs to the process, sentences back
  std::function<void(const std::string&)> report_;
  HookLimits limits_;
  uint64_t dropped_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_HOOK_HOOK_PROCESS_H_
