#include "model/facts/bad_end.h"

#include <signal.h>

namespace cowprof {
namespace {

// Ends that a supervisor expects: EX_RECYCLE of Celery's billiard (worker_max_tasks_per_child), and uWSGI's reload and
// end (max-requests).
bool IsReplaced(const ProcessModel& process) {
  const int code = process.exit->code;
  if (process.framework == Framework::kCelery) return code == 155;
  return process.comm == "uwsgi" && (code == 17 || code == 30);
}

}  // namespace

Killing KillingSignal(const ProcessModel& process) {
  Killing found;
  const SignalDelivered* last = nullptr;
  for (const Event& event : process.signals) {
    const auto* delivered = event.As<SignalDelivered>();
    if (delivered != nullptr && delivered->signal == process.exit->signal) last = delivered;
    const auto* sent = event.As<SignalSent>();
    if (sent == nullptr || sent->signal != process.exit->signal) continue;
    if (found.sent == nullptr || sent->signal != SIGKILL) found = {event.t, sent};
  }
  // The kernel sends faults. After many that a handler took it is not told that it sent one.
  const bool by_kernel = last != nullptr && last->code > 0;
  return by_kernel && found.sent != nullptr && found.sent->code <= 0 ? Killing{} : found;
}

// What an exit code means is known of Python's workers only: a shell's last command may have found nothing.
bool Failed(const ProcessModel& process) {
  return process.exit->code != 0 && process.is_worker() && !process.python.empty() && !IsReplaced(process);
}

// Process pools and supervisors end their workers by signals; SIGTERM, SIGINT and SIGHUP ask for an end.
bool EndedBadly(const ProcessModel& process, const RunModel& model) {
  const Exit& exit = *process.exit;
  if (!exit.signaled) return Failed(process);
  if (exit.signal == SIGTERM || exit.signal == SIGINT || exit.signal == SIGHUP) return false;
  const SignalSent* sent = KillingSignal(process).sent;
  const ProcessModel* parent = model.Find(process.parent);
  return exit.signal != SIGKILL || sent == nullptr || parent == nullptr || sent->sender != parent->id.pid;
}

}  // namespace cowprof
