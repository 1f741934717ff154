#include "model/facts/bad_end.h"

#include <signal.h>

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "model/base_name.h"

namespace cowprof {
namespace {

// Ends that a supervisor expects: EX_RECYCLE of Celery's billiard (worker_max_tasks_per_child), and uWSGI's reload and
// end (max-requests).
bool IsReplaced(const ProcessModel& process) {
  const int code = process.exit->code;
  if (process.framework == Framework::kCelery) return code == 155;
  return process.comm == "uwsgi" && (code == 17 || code == 30);
}

// A forkserver forks for the program above it, which then kills what it started itself (Process.kill()).
bool IsFromParent(const SignalSent& sent, const ProcessModel& process, const RunModel& model) {
  const ProcessModel* parent = model.Find(process.parent);
  if (parent == nullptr) return false;
  const ProcessModel* program = parent->role == Role::kForkserver ? model.Find(parent->parent) : nullptr;
  return sent.sender == parent->id.pid || (program != nullptr && sent.sender == program->id.pid);
}

// "python -m uvicorn app:app --workers 4", by its command line.
bool SupervisesUvicorn(const ProcessModel& process) {
  const std::vector<absl::string_view> words = absl::StrSplit(process.command, ' ');
  bool uvicorn = false;  // a program or a module, not an argument of another one
  for (size_t i = 0; i < words.size(); ++i) {
    uvicorn |= BaseName(words[i]) == "uvicorn" && (i < 2 || words[i - 1] == "-m");
    absl::string_view number = words[i];
    const bool one_word = absl::ConsumePrefix(&number, "--workers=");
    if (!one_word && (number != "--workers" || i + 1 == words.size())) continue;
    int workers = 0;
    return uvicorn && absl::SimpleAtoi(one_word ? number : words[i + 1], &workers) && workers > 1;
  }
  return false;
}

bool AsksForEnd(int signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGHUP; }

// A process that ends later than this after a request ended for another reason. Slurm and Kubernetes wait 30 s before
// they kill, unless they are told to wait for a checkpoint; an OOM daemon waits for some seconds.
constexpr absl::Duration kLongestEnding = absl::Minutes(10), kLongestOfOomDaemon = absl::Minutes(1);

constexpr absl::Duration kMostFromErrorToEnd = absl::Seconds(10);

// The last request to end that came shortly before it did; before a failure rather one by an OOM daemon, since others
// may follow from that. Null: none was seen.
Killing RequestToEnd(const ProcessModel& process) {
  Killing found;
  for (const Event& event : process.signals) {
    const auto* sent = event.As<SignalSent>();
    if (sent == nullptr || !AsksForEnd(sent->signal)) continue;
    const bool of_daemon = IsFromOomDaemon(*sent);
    if (event.t < *process.ended - (of_daemon ? kLongestOfOomDaemon : kLongestEnding)) continue;
    const bool keeps = found.sent != nullptr && IsFromOomDaemon(*found.sent) && process.exit->code != 0;
    if (of_daemon || !keeps) found = {event.t, sent};
  }
  return found;
}

// A handler such as torch's cleans up, and then raises the signal again, to its own process. `fault`: the last delivery
// was one, which the process then raises again, rather than what others had sent before.
bool IsRaisedAgain(const SignalSent& sent, absl::Duration t, const Killing& taken, bool fault,
                   const ProcessModel& process) {
  return sent.code <= 0 && sent.sender == process.id.pid && taken.sent != nullptr && t - taken.t <= kLongestEnding &&
         (!fault || taken.sent->code > 0);
}

// Another process asked it to end, and its trainer, which had not, failed by that, as a DataLoader's does.
bool EndFailedItsTrainer(const ProcessModel& process, const RunModel& model) {
  const SignalSent* const sent = KillingSignal(process).sent;
  if (sent == nullptr || sent->code == SI_KERNEL || sent->sender == process.id.pid) return false;
  if (IsFromParent(*sent, process, model)) return false;
  const ProcessModel* trainer = model.Find(process.parent);
  if (trainer != nullptr && trainer->role == Role::kForkserver) trainer = model.Find(trainer->parent);
  return trainer != nullptr && trainer->exit && TrainerFailed(*trainer) && *trainer->ended >= *process.ended &&
         *trainer->ended - *process.ended <= kPassedOnWithin;
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
    const bool fault = last != nullptr && last->code > 0;
    if (found.sent != nullptr && (sent->signal == SIGKILL || IsRaisedAgain(*sent, event.t, found, fault, process)))
      continue;
    found = {event.t, sent};
  }
  // The kernel sends faults. After many that a handler took it is not told that it sent one.
  const bool by_kernel = last != nullptr && last->code > 0;
  return by_kernel && found.sent != nullptr && found.sent->code <= 0 ? Killing{} : found;
}

// A handler may end it with any code.
bool WasAskedToEnd(const ProcessModel& process) {
  const SignalSent* sent = RequestToEnd(process).sent;
  return sent != nullptr ? !IsFromOomDaemon(*sent) : AsksForEnd(process.exit->code - 128);
}

// What an exit code means is known of Python's workers only: a shell's last command may have found nothing. Ctrl-C
// reaches workers, too, and those of multiprocessing end with 1 then.
bool Failed(const ProcessModel& process) {
  return process.exit->code != 0 && process.is_worker() && !process.python.empty() && !IsReplaced(process) &&
         !WasAskedToEnd(process);
}

// Python ends with 1 once it has printed the traceback; one that goes on after it (python -i) does not.
const LastErrorSeen* FatalError(const ProcessModel& process) {
  const bool died = process.last_error && process.exit->code == 1 && !process.exit->signaled;
  return died && *process.ended - process.last_error_at < kMostFromErrorToEnd ? &*process.last_error : nullptr;
}

const StartFailed* FatalStartError(const ProcessModel& process) {
  const bool died = process.start_failed && process.exit->code != 0 && !process.exit->signaled;
  return died && *process.ended - process.start_failed_at < kMostFromErrorToEnd ? &*process.start_failed : nullptr;
}

// Left out: slurmstepd and Ray's raylet, which kill for other reasons, too.
bool IsFromOomDaemon(const SignalSent& sent) {
  constexpr absl::string_view kDaemons[] = {"systemd-oomd", "earlyoom", "nohang", "oomd"};
  return sent.code <= 0 && absl::c_linear_search(kDaemons, sent.sender_comm);
}

Killing OomDaemonRequest(const ProcessModel& process) {
  const Killing request = process.exit->signaled ? Killing{} : RequestToEnd(process);
  return request.sent != nullptr && IsFromOomDaemon(*request.sent) ? request : Killing{};
}

// gunicorn's master sends SIGABRT for nothing else (murder_workers(), gunicorn/arbiter.py), and SIGKILL a second later;
// SIGKILL alone follows a request to end. A worker that can handle SIGABRT exits.
bool IsGunicornTimeout(const ProcessModel& process, const RunModel& model) {
  // A greenlet's frames end at its first one: of a gevent worker that was there at the attach only the master tells.
  const ProcessModel* const parent = model.Find(process.parent);
  const bool untold = !process.framework && process.is_worker() && parent != nullptr;
  if ((untold ? parent->framework : process.framework) != Framework::kGunicorn) return false;
  if (process.exit->signaled) {
    const SignalSent* sent = KillingSignal(process).sent;
    const bool by_parent = sent != nullptr && IsFromParent(*sent, process, model);
    if (!by_parent || (sent->signal != SIGKILL && sent->signal != SIGABRT)) return false;
  } else if (!Failed(process)) {
    return false;
  }
  return absl::c_any_of(process.signals, [&](const Event& event) {
    const auto* sent = event.As<SignalSent>();
    return sent != nullptr && sent->signal == SIGABRT && IsFromParent(*sent, process, model);
  });
}

// uvicorn's supervisor (Multiprocess, uvicorn/supervisors/multiprocess.py, 0.30 and later) sends SIGTERM to what it
// ends, and SIGKILL only to a worker that does not answer its ping. A single worker has no supervisor: a child of
// uvicorn's process is then the application's, which may kill it for any reason.
bool IsUvicornTimeout(const ProcessModel& process, const RunModel& model) {
  if (!process.is_worker() || process.oom_victim || process.exit->signal != SIGKILL) return false;
  const ProcessModel* const parent = model.Find(process.parent);
  const SignalSent* const sent = KillingSignal(process).sent;
  if (sent == nullptr || !IsFromParent(*sent, process, model) || !SupervisesUvicorn(*parent)) return false;
  const bool asked = absl::c_any_of(process.signals, [](const Event& event) {
    const auto* other = event.As<SignalSent>();
    return other != nullptr && AsksForEnd(other->signal);
  });
  return !asked && (!parent->ended || *parent->ended >= *process.ended + kLivesOn);
}

// Process pools and supervisors end their workers by signals; SIGTERM, SIGINT and SIGHUP ask for an end, unless an OOM
// daemon sent them, or others did and the trainer failed by that.
bool EndedBadly(const ProcessModel& process, const RunModel& model) {
  const Exit& exit = *process.exit;
  if (!exit.signaled) return Failed(process) || OomDaemonRequest(process).sent != nullptr;
  const SignalSent* sent = KillingSignal(process).sent;
  if (sent != nullptr && IsFromOomDaemon(*sent)) return true;
  if (AsksForEnd(exit.signal)) return EndFailedItsTrainer(process, model);
  return exit.signal != SIGKILL || sent == nullptr || !IsFromParent(*sent, process, model) ||
         IsGunicornTimeout(process, model) || IsUvicornTimeout(process, model);
}

// A target may be any program: what its codes mean is known of Python, and above 128, where a shell passes on the
// signal that killed its child.
bool TrainerFailed(const ProcessModel& process) {
  const Exit& exit = *process.exit;
  if (exit.signaled || exit.code == 0 || WasAskedToEnd(process)) return false;
  return process.role == Role::kRank || (process.index == 0 && (!process.python.empty() || exit.code > 128));
}

bool HasBadEnd(const ProcessModel& process, const RunModel& model) {
  return process.exit && (EndedBadly(process, model) || TrainerFailed(process));
}

}  // namespace cowprof
