// Runs a recording tick by tick, and ends with the verdict. Read RunLoop() and RunTick() first: wait, collect, append,
// judge, write. set_up makes the parts.
#include "recorder/record.h"

#include <fcntl.h>
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/format.h"
#include "model/judge/alert.h"
#include "model/judge/alert_format.h"
#include "model/judge/findings.h"
#include "posix/clock.h"
#include "posix/exit_status.h"
#include "recorder/recording.h"
#include "recorder/self_protection.h"
#include "recorder/self_throttle.h"
#include "recorder/set_up.h"
#include "recorder/target.h"
#include "sink/report/report.h"
#include "sink/terminal/print_report.h"
#include "source/namespaces.h"
#include "source/probe_plan.h"
#include "source/procfs.h"
#include "timeline/json_timeline.h"

namespace cowprof {
namespace {

constexpr absl::Duration kLeastGap = absl::Milliseconds(20);        // from a tick to the next one by an event
constexpr absl::Duration kLongestWait = absl::Milliseconds(800);    // a death is in the file within a second
constexpr absl::Duration kLeastCost = absl::Milliseconds(10);       // that a tick by a death counts as
constexpr absl::Duration kLookAtReaders = absl::Milliseconds(100);  // who had stopped reading

// Judges the run, which already includes this sample. Alerts depend on the findings and become part of them.
std::vector<Alert> JudgeTick(const Sample& sample, Recording* recording) {
  Run& run = recording->run;
  Findings& findings = recording->findings;
  Detail detail = Detail::kTick;
  for (const std::unique_ptr<Sink>& sink : recording->sinks) detail = std::max(detail, sink->detail());
  findings = Judge(run, detail);
  std::vector<Alert> raised = recording->watch.Judge(sample, run.model, findings.forecast);
  if (!raised.empty())
    ExplainAlerts(detail >= Detail::kScreen ? findings : Judge(run, Detail::kScreen), run.model, &raised);
  AddAlerts(raised, &run);
  findings.alerts = run.alerts;
  return raised;
}

void WriteAll(const Sample& sample, const std::vector<Alert>& raised, Recording* recording) {
  const Tick tick = {sample, recording->run.model, recording->findings, raised};
  for (const std::unique_ptr<Sink>& sink : recording->sinks) {
    if (absl::Status status = sink->Write(tick); !status.ok()) Say(status.message(), recording);
  }
  if (recording->hook != nullptr) recording->hook->Take(raised, recording->run.model);
  if (recording->page == nullptr) return;
  if (const std::optional<std::string> death = recording->page->Death()) Say(*death, recording);
}

absl::Status RunTick(Recording* recording, SelfThrottle* throttle, bool last) {
  absl::StatusOr<Sample> sample = recording->collector->Collect(throttle->interval(), last);
  if (!sample.ok()) return absl::InternalError(sample.status().message());  // not the output's failure
  if (std::optional<Event> note = throttle->Adjust(sample->t, recording->collector->sweep_cost()))
    sample->events.push_back(*std::move(note));
  if (std::optional<Event> note = recording->clock_jump.Look(sample->t, WallTimeOf(recording->start)))
    sample->events.push_back(*std::move(note));
  AddNote(recording->collector->TakeNote(), recording);
  for (std::string& note : std::exchange(recording->notes, {}))
    sample->events.push_back({.t = sample->t, .what = Note{std::move(note)}});
  Append(*sample, &recording->run);
  WriteAll(*sample, JudgeTick(*sample, recording), recording);
  return absl::OkStatus();
}

// Redraws after a resize. `suspend`: on Ctrl-Z, first leaves the terminal to the shell until cowprof continues.
void RepaintAll(bool suspend, Recording* recording) {
  for (const std::unique_ptr<Sink>& sink : recording->sinks) {
    if (suspend) sink->Yield();
  }
  if (suspend) recording->event_loop.Suspend();
  for (const std::unique_ptr<Sink>& sink : recording->sinks) sink->Repaint(recording->run.model, recording->findings);
}

// Prints what waits for readers that had stopped. Returns when to try again, on CLOCK_BOOTTIME.
absl::Duration FlushOutputs(Recording* recording) {
  const bool flushed = recording->out.Flush();
  return recording->err.Flush() && flushed ? absl::InfiniteDuration() : BootTime() + kLookAtReaders;
}

// Waits until the next tick is due, an event comes, or a look at the limits shows that a tick now is worth its cost.
Wake WaitForTick(absl::Duration deadline, Recording* recording) {
  for (;;) {
    const absl::Duration flush = FlushOutputs(recording);
    const absl::Duration look =
        recording->start + std::min(recording->watch.next_look(), recording->collector->next_look_at_workers());
    const Wake wake = recording->event_loop.WaitUntil(std::min({deadline, look, flush}));
    if (wake == Wake::kSuspend || wake == Wake::kRepaint) {
      RepaintAll(wake == Wake::kSuspend, recording);
      continue;
    }
    if (wake != Wake::kTick || BootTime() >= deadline) return wake;
    if (recording->hook != nullptr) recording->hook->Poll();
    const absl::Duration now = BootTime() - recording->start;
    if (now >= recording->collector->next_look_at_workers()) recording->collector->LookAtWorkers(now);
    if (now < recording->watch.next_look()) continue;
    if (recording->watch.Look(now, recording->collector->LookAtLimits(now))) return Wake::kTick;
  }
}

// CPU time that has no bound of its own.
absl::Duration CpuTime(const Recording& recording) {
  return ReadClock(CLOCK_PROCESS_CPUTIME_ID) - recording.collector->sweep_cost();
}

// Runs until the target ends, a signal stops it or the duration is over; returns which.
absl::StatusOr<std::string> RunLoop(Recording* recording) {
  SelfThrottle throttle(recording->options.interval);
  const absl::Duration end = recording->start + recording->options.duration;
  // Programs may be killed all the time, by a limit of time or as `head` ends. Without probes each end is an event, of
  // short commands as well, and a tick costs much more. Workers do not wait there: the status of one that its parent
  // has reaped is lost.
  EventPace pace = recording->info.exactness == Exactness::kPageMap ? EventPace() : EventPace(kLongestWait, kLeastCost);
  absl::Duration next = BootTime();
  for (bool by_event = false;;) {
    const absl::Duration began = BootTime(), cpu_before = CpuTime(*recording);
    if (absl::Status status = RunTick(recording, &throttle, /*last=*/false); !status.ok()) return status;
    if (!recording->collector->target_alive()) {
      // Those that were killed with it have ended meanwhile: the look at shared memory waits for them.
      if (recording->collector->some_have_ended()) {
        if (absl::Status status = RunTick(recording, &throttle, /*last=*/true); !status.ok()) return status;
      }
      return "target ended";
    }
    if (BootTime() >= end) return "duration reached";
    if (by_event) pace.Spend(began, CpuTime(*recording) - cpu_before);
    const absl::Duration soonest = began + kLeastGap;  // not faster in a storm of signals
    recording->event_loop.HoldEventsUntil(std::max(soonest, pace.NextAfter(began)), soonest);
    next = std::max(next + throttle.interval(), BootTime());
    const Wake wake = WaitForTick(std::min({next, end, recording->collector->next_extra_tick()}), recording);
    by_event = wake == Wake::kEvent;
    switch (wake) {
      case Wake::kStop:
        return "interrupted";
      case Wake::kStopByTarget:
        return std::string(kStoppedByTarget);
      case Wake::kEvent:
      case Wake::kUrgentEvent:
        next = BootTime();  // at once, for a process that is about to die
        break;
      case Wake::kTick:
        next = std::min(next, BootTime());
        break;
      case Wake::kTargetEnded:
      case Wake::kSuspend:
      case Wake::kRepaint:
        break;
    }
  }
}

// Completes every output, whatever ended the loop: `reason` says what did, or how the loop failed.
absl::Status Finish(const absl::StatusOr<std::string>& reason, Recording* recording) {
  // A program that continues to run (--duration) still gets its signals.
  if (!recording->program || !recording->collector->target_alive()) recording->event_loop.LetSignalsKill();
  SelfThrottle throttle(recording->options.interval);
  absl::Status status = reason.status();
  if (status.ok() && recording->collector->target_alive()) status = RunTick(recording, &throttle, /*last=*/true);
  for (const std::unique_ptr<Sink>& sink : recording->sinks)
    status.Update(sink->Finish(recording->run.model.t, reason.ok() ? *reason : std::string(kRecorderFailed)));
  return status;
}

// Prints the verdict, as far as it is read.
void Conclude(const std::string& path, Recording* recording) {
  if (recording->options.quiet || !recording->options.verdict) return;
  const bool started = recording->info.started_target;
  const std::string report =
      absl::StrCat("\n", ReportText(recording->run.model, Judge(recording->run), /*complete=*/true), "\nrecorded in ",
                   path, "; view it: cowprof view ", path, "\n");
  (started ? recording->err : recording->out)
      .Put(LaidOut(report, recording->options.colour, started ? stderr : stdout));
}

// A program that runs on should not pay for probes that nobody reads.
void Detach(Recording* recording) {
  recording->event_loop.WatchEvents(-1);
  recording->collector = nullptr;
}

// Prints what is left, whatever it takes: a signal ends cowprof now.
void DrainOutputs(Recording* recording) {
  for (NonblockingOutput* const output : {&recording->out, &recording->err}) {
    if (output->Flush()) continue;
    recording->event_loop.LetSignalsKill(/*pending=*/true);  // the program, which they were for, may be reaped
    output->Drain();
  }
}

// Waits for the program that cowprof started, if any, and returns its status; 128 + signal, as in a shell.
int AwaitProgram(Recording* recording) {
  if (!recording->program) return kDone;
  while (!recording->event_loop.ForwardUntilTargetEnds(FlushOutputs(recording))) {
  }
  return ExitOf(recording->program->Wait()).code;
}

// Ends the recording and returns the exit status. Never abandons the program: its caller relies on cowprof to pass
// signals on and to end with it.
int End(const absl::StatusOr<std::string>& reason, Recording* recording) {
  const absl::Status status = Finish(reason, recording);
  const bool runs_on = recording->program && recording->collector->target_alive();
  Detach(recording);
  Conclude(recording->timeline->path(), recording);
  if (!runs_on) DrainOutputs(recording);
  if (recording->hook != nullptr) recording->hook->Finish();
  if (recording->page != nullptr) recording->page->Finish();
  int code = recording->timeline->records_dropped() > 0 ? kCannotWrite : kDone;
  if (!status.ok()) {
    code = absl::IsInternal(status) ? kInternalFailure : kCannotWrite;
    Say(status.message(), recording);  // now: the program may run for days
  }
  const int of_program = AwaitProgram(recording);
  const std::optional<Alert>& alert = recording->run.first_alert;
  if (code == kDone && recording->options.fail_on_alert && alert) {
    code = kGateHit;
    Say(absl::StrCat("there was an alert (--fail-on-alert): ", Printable(alert->text, 400)), recording);
  }
  DrainOutputs(recording);
  return code != kDone ? code : of_program;
}

}  // namespace

int RunRecording(const RecordOptions& options) {
  if (absl::Status known = CheckWithout(options.without); !known.ok()) return Fail(kUsage, known.message());
  TuneHeap();
  if (options.watched) {
    prctl(PR_SET_NAME, "cowprof");  // it was executed by another name, /proc/self/exe
    for (const int fd : {options.watched->lifeline, options.watched->metrics}) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  Recording recording = {.options = options, .watch = AlertWatch(options.alerts)};
  StartScout(&recording);
  if (int code = OpenHook(&recording); code != kDone) return code;
  if (int code = StartMetricsFile(&recording); code != kDone) return code;
  if (int code = OpenPage(&recording); code != kDone) return code;
  const ProcFs proc;
  if (absl::Status status = CheckProc(proc); !status.ok()) return Fail(kHostCannot, status.message());
  recording.start = BootTime();
  if (options.attach == 0) {
    if (int code = StartProgram(&recording); code != kDone) return code;
  } else if (absl::Status status = CheckTarget(proc, options.attach); !status.ok()) {
    return FailOnTarget(status);
  }
  // Make a closed stdout, or a file as long as `ulimit -f` allows, an error of write(2) instead of our death. A program
  // that we started keeps its own dispositions.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  const pid_t target = options.attach != 0 ? options.attach : recording.program->pid();
  RaiseDescriptorLimit();
  recording.event_loop.WatchTarget(target, /*forward_signals=*/options.attach == 0);
  if (options.watched) {
    recording.event_loop.WatchLifeline(options.watched->lifeline);
    if (absl::Status status = CheckTarget(proc, target, options.watched->start_ticks); !status.ok())
      return Fail(kNoProcess, status.message());
  }
  if (int code = Attach(proc, target, &recording); code != kDone) return code;
  if (int code = OpenSinks(proc, target, &recording); code != kDone) return code;
  StartPage(&recording);
  AddNote(NoteOnTarget(proc, target), &recording);
  ProtectSelf(proc, &recording);
  if (recording.program) {
    if (absl::Status status = recording.program->Release(); !status.ok()) {
      for (const std::unique_ptr<Sink>& sink : recording.sinks)  // metrics must not say that it records
        static_cast<void>(sink->Finish(absl::ZeroDuration(), std::string(kRecorderFailed)));
      recording.timeline->Remove();  // nothing ran: there is nothing to keep
      return FailToStart(status);
    }
  }
  recording.timeline->Keep();
  GiveUp(&recording);
  return End(RunLoop(&recording), &recording);
}

}  // namespace cowprof
