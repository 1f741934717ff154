// The process that reads what workers would be sent (python/pickle_look.h) while a recording runs, and watches for the
// error of an attempt to start a process that failed. It is forked before cowprof loads its probes: a walk over a
// million objects must not delay a tick, and what reads that many of the target's objects should share nothing with the
// recorder. It has the recorder's lesser rights, and no descriptor but its socket. No tick waits for it, but for the
// one in which a process that it watches has died.
#ifndef COWPROF_RECORDER_START_METHOD_SCOUT_H_
#define COWPROF_RECORDER_START_METHOD_SCOUT_H_

#include <sys/types.h>

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "model/facts/event.h"
#include "model/facts/process_id.h"
#include "model/facts/start_methods.h"
#include "posix/fd.h"

namespace cowprof {

struct ScoutReport {
  ProcessId id;  // of the process that was read
  std::variant<StartMethodsSeen, StartFailed, LastErrorSeen> what;
};

class StartMethodScout {
 public:
  static absl::StatusOr<std::unique_ptr<StartMethodScout>> Start();
  // One that runs already, as process `pid`, which has the other end of `socket`.
  StartMethodScout(pid_t pid, Fd socket) : pid_(pid), socket_(std::move(socket)) {}
  ~StartMethodScout();  // the process ends within 100 ms, or with the recorder

  // Watches a process, which runs Python, until it ends: once a second at least.
  void Watch(const ProcessId& id);
  // The same of a process that multiprocessing started: for its last error, closely for its first seconds, and only
  // while few are watched.
  void WatchStarted(const ProcessId& id);
  // Also reads what its workers would be sent; where nothing is found, what `worker`, a child of it, was sent.
  void Look(const ProcessId& id, const ProcessId& worker);
  // The same of a process that is about to pickle, or does: watches for an error, which is there for milliseconds.
  void LookAtPickling(const ProcessId& id);
  // The reports that have come. Never waits.
  std::vector<ScoutReport> Take() { return Receive({}, absl::ZeroDuration()); }
  // The same, once all is told of a process that has died: waits for it, but not longer than `most`.
  std::vector<ScoutReport> TakeLast(const ProcessId& id, absl::Duration most);
  // It has ended: there will be no more reports.
  bool gone() const { return !socket_.ok(); }

 private:
  void Send(char what, const ProcessId& id, const ProcessId& other = {});
  std::vector<ScoutReport> Receive(const ProcessId& ended, absl::Duration most);

  pid_t pid_;
  Fd socket_;  // carries packets: requests to the process, JSON back
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_START_METHOD_SCOUT_H_
