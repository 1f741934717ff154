// The process that runs the hook of --on-alert. It is forked before cowprof gives up its rights: a hook may do what its
// user may, while the recorder, which reads what the target chose, can't start anything. It runs the one command that
// it was made for, and is told nothing but what HookRunFor() says. Called by the recording loop; no tick waits for it.
#ifndef COWPROF_SINK_HOOK_HOOK_PROCESS_H_
#define COWPROF_SINK_HOOK_HOOK_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

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
  // The hook is run as who called cowprof, also by way of sudo. Arguments as AlertHook::Create() has them.
  static absl::StatusOr<std::unique_ptr<HookProcess>> Start(absl::string_view command, const sigset_t& signals,
                                                            std::function<void(const std::string&)> report,
                                                            const HookLimits& limits = {});
  ~HookProcess();  // it ends at once, and so does a hook that runs, unless that became another user

  // To be run for each of them; those that say that one is over are no reason to.
  void Take(const std::vector<Alert>& alerts, const RunModel& model);
  // Passes on what it has to say.
  void Poll();
  // At the end: see AlertHook::Finish().
  void Finish();

 private:
  HookProcess(pid_t pid, Fd socket, std::function<void(const std::string&)> report, const HookLimits& limits)
      : pid_(pid), socket_(std::move(socket)), report_(std::move(report)), limits_(limits) {}
  bool Listen(int wait_ms);
  void Reap();

  pid_t pid_;
  Fd socket_;  // of packets; runs go there, sentences come back
  std::function<void(const std::string&)> report_;
  HookLimits limits_;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_HOOK_HOOK_PROCESS_H_
