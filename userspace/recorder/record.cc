// Sets up the data path, runs it tick by tick, and ends with the verdict. Read RunLoop() and RunTick() first: wait,
// collect, append, judge, write.
#include "recorder/record.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "model/format.h"
#include "model/judge/alert.h"
#include "model/judge/findings.h"
#include "posix/clock.h"
#include "posix/exit_status.h"
#include "recorder/clock_jump.h"
#include "recorder/collector.h"
#include "recorder/event_loop.h"
#include "recorder/privileges.h"
#include "recorder/self_protection.h"
#include "recorder/self_throttle.h"
#include "recorder/target.h"
#include "serve/page_server.h"
#include "sink/hook/hook_process.h"
#include "sink/report/report.h"
#include "sink/terminal/terminal.h"
#include "sink/timeline_sink.h"
#include "source/copy_calibration.h"
#include "source/environment.h"
#include "source/fault_ladder.h"
#include "source/namespaces.h"
#include "timeline/timeline_file.h"

namespace cowprof {
namespace {

constexpr absl::Duration kLeastGap = absl::Milliseconds(20);  // between two ticks, whatever happens
constexpr size_t kMostEnded = 128;  // rows of ended processes that the recorder itself keeps; the file has all

// The parts of a recording, in the order in which data passes through them.
struct Recording {
  RecordOptions options;
  EventLoop event_loop;
  std::optional<HeldProgram> program;
  RunInfo info;
  absl::Duration start;  // BootTime() at t = 0
  std::unique_ptr<Collector> collector;
  Run run;
  Findings findings;  // of the last tick
  std::unique_ptr<TimelineFile> timeline;
  std::vector<std::unique_ptr<Sink>> sinks;  // the first one writes the timeline
  AlertWatch watch;
  ClockJump clock_jump;
  std::unique_ptr<HookProcess> hook;  // or none
  std::unique_ptr<PageServer> page;   // or none
  std::vector<std::string> notes;     // to be added to the next sample
};

// Judges the run, which already includes this sample. Alerts depend on the findings and become part of them.
std::vector<Alert> JudgeTick(const Sample& sample, Recording* recording) {
  Run& run = recording->run;
  Findings& findings = recording->findings;
  Detail detail = Detail::kTick;
  for (const std::unique_ptr<Sink>& sink : recording->sinks) detail = std::max(detail, sink->detail());
  findings = Judge(run, detail);
  std::vector<Alert> raised = recording->watch.Judge(sample, run.model, findings.forecast);
  run.alerts.insert(run.alerts.end(), raised.begin(), raised.end());
  findings.alerts = run.alerts;
  return raised;
}

// Prints a sentence that must not be lost behind the live screen.
void Say(absl::string_view sentence, Recording* recording) {
  for (const std::unique_ptr<Sink>& sink : recording->sinks) sink->Yield();
  Fail(kDone, sentence);
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
  if (!sample.ok()) return sample.status();
  if (std::optional<Event> note = throttle->Adjust(sample->t, recording->collector->sweep_cost()))
    sample->events.push_back(*std::move(note));
  if (std::optional<Event> note = recording->clock_jump.Look(sample->t, absl::Now()))
    sample->events.push_back(*std::move(note));
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

// Waits until the next tick is due, an event comes, or a look at the limits shows that a tick now is worth its cost.
Wake WaitForTick(absl::Duration deadline, Recording* recording) {
  for (;;) {
    const absl::Duration look = recording->start + recording->watch.next_look();
    const Wake wake = recording->event_loop.WaitUntil(std::min(deadline, look));
    if (wake == Wake::kSuspend || wake == Wake::kRepaint) {
      RepaintAll(wake == Wake::kSuspend, recording);
      continue;
    }
    if (wake != Wake::kTick || BootTime() >= deadline) return wake;
    if (recording->hook != nullptr) recording->hook->Poll();
    const absl::Duration now = BootTime() - recording->start;
    if (recording->watch.Look(now, recording->collector->LookAtLimits(now))) return Wake::kTick;
  }
}

// Runs until the target ends, a signal stops it or the duration is over; returns which.
absl::StatusOr<std::string> RunLoop(Recording* recording) {
  SelfThrottle throttle(recording->options.interval);
  const absl::Duration end = recording->start + recording->options.duration;
  absl::Duration next = BootTime();
  for (;;) {
    const absl::Duration began = BootTime();
    if (absl::Status status = RunTick(recording, &throttle, /*last=*/false); !status.ok()) return status;
    if (!recording->collector->target_alive()) return "target ended";
    if (BootTime() >= end) return "duration reached";
    next = std::max(next + throttle.interval(), BootTime());
    switch (WaitForTick(std::min({next, end, recording->collector->next_extra_tick()}), recording)) {
      case Wake::kStop:
        return "interrupted";
      case Wake::kEvent:
        // Tick at once, for a process that is about to die, but not faster than kLeastGap in a storm of signals.
        absl::SleepFor(began + kLeastGap - BootTime());
        next = BootTime();
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

absl::Status Finish(const std::string& reason, Recording* recording) {
  // A program that continues to run (--duration) still gets its signals.
  if (!recording->program || !recording->collector->target_alive()) recording->event_loop.LetSignalsKill();
  SelfThrottle throttle(recording->options.interval);
  absl::Status status;
  if (recording->collector->target_alive()) status = RunTick(recording, &throttle, /*last=*/true);
  for (const std::unique_ptr<Sink>& sink : recording->sinks)
    status.Update(sink->Finish(recording->run.model.t, reason));
  return status;
}

// ---- Setting up ----

// Sizes the region table by what can be copied: each of up to 64 processes may touch every 2 MiB of the target.
uint64_t RegionsFor(const ProcFs& proc, pid_t target) {
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(target);
  const absl::StatusOr<std::string> status = proc.ReadFile(target, "status");
  const uint64_t anon_bytes = stat.ok() && status.ok() ? ParseStatus(*status).anon_bytes.value_or(0) : 0;
  const uint64_t wanted = 64 * (2 * anon_bytes / kRegionBytes + 512);
  return std::min<uint64_t>(std::max<uint64_t>(wanted, 65536), 491'520);  // 5 to 39 MiB of kernel memory
}

bool Without(const RecordOptions& options, absl::string_view name) {
  return std::find(options.without.begin(), options.without.end(), name) != options.without.end();
}

// Returns kDone, or an exit status after the reason was printed.
int Attach(const ProcFs& proc, pid_t target, Recording* recording) {
  RunInfo& info = recording->info;
  const HostFacts facts = ReadHostFacts();
  info.copy_ns = CalibrateCopy(facts.page_bytes);  // before the probes make copies cost more
  const auto t0_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(recording->start));
  const size_t sample_diverged = recording->options.verify ? kMaxDivergedSample : 0;
  LoadedFaults loaded = LoadFaults(facts, {.target = target,
                                           .without = recording->options.without,
                                           .bpf = {.max_regions = RegionsFor(proc, target),
                                                   .every_copy = recording->options.every_copy,
                                                   .copy_sites = !Without(recording->options, kWithoutStacks)},
                                           .pagemap = {.t0_ns = t0_ns, .sample_diverged = sample_diverged}});
  const std::vector<Rung>& ladder = loaded.ladder;
  const Rung* rung = ChosenRung(ladder);
  if (rung == nullptr) {
    // The rung with the fewest requirements, and the best one on this architecture.
    const Rung& last = ladder.back();
    const Rung& best = ladder[loaded.facts.fault_tracepoint ? 0 : 1];
    return Fail(kHostCannot, absl::StrCat("can't count copies here: ", best.name, ": ", best.reason, "; ", best.remedy,
                                          "; ", last.name, ": ", last.reason, "; ", last.remedy));
  }
  info.version = COWPROF_VERSION;
  info.kernel = facts.kernel;
  info.page_bytes = facts.page_bytes;
  info.cpus = facts.cpus;
  info.rung = rung->name;
  info.exactness = rung->exactness;
  for (const Rung& other : ladder) {
    if (!other.reason.empty()) info.rejected.push_back({other.name, other.reason, other.remedy});
  }
  std::unique_ptr<FaultSource> faults = std::move(loaded.source);
  if (absl::Status status = faults->Follow(target); !status.ok()) {
    return Fail(absl::IsNotFound(status) ? kNoProcess : kInternalFailure,
                absl::StrCat("follow process ", target, ": ", status.message()));
  }
  recording->event_loop.WatchEvents(faults->wake_fd());
  const CollectorOptions options = {.page_bytes = info.page_bytes,
                                    .t0_ns = t0_ns,
                                    .probes = rung->name != kRungPageMap,
                                    .causes = !Without(recording->options, kWithoutCauses),
                                    .verify = recording->options.verify};
  recording->collector = std::make_unique<Collector>(std::move(faults), proc, Limits(proc), options);
  return kDone;
}

std::string HostName() {
  utsname host;
  return uname(&host) == 0 ? host.nodename : "";
}

// What /proc says of the target's environment is that of its last exec. A program that we have not let run yet has
// ours.
RunIdentity IdentityOf(const ProcFs& proc, pid_t target, const std::map<std::string, std::string>& labels) {
  RunIdentity identity = {.host = HostName(), .boot_id = "", .rank = {}, .labels = labels};
  if (const auto boot_id = ReadSmallFile(proc.root() + "/sys/kernel/random/boot_id"); boot_id.ok())
    identity.boot_id = std::string(absl::StripAsciiWhitespace(*boot_id));
  if (const auto environment = proc.ReadFile(target, "environ"); environment.ok())
    identity.rank = RankFactsOf(ParseEnvironment(*environment));
  return identity;
}

int OpenSinks(const ProcFs& proc, pid_t target, Recording* recording) {
  const RecordOptions& options = recording->options;
  RunInfo& info = recording->info;
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(target);
  info.target = {target, stat.ok() ? stat->start_ns() : 0};
  info.started = absl::Now() - (BootTime() - recording->start);  // t = 0 was before the probes were loaded
  info.interval = options.interval;
  info.started_target = recording->program.has_value();
  if (stat.ok()) {
    const absl::Duration born = absl::Nanoseconds(static_cast<int64_t>(stat->start_ns()));
    info.target_age = std::max(recording->start - born, absl::ZeroDuration());
  }
  info.command = info.started_target ? absl::StrJoin(options.program, " ") : proc.ReadCommandLine(target);
  if (info.command.empty() && stat.ok()) info.command = stat->comm;
  info.limits = Limits(proc).Read(target);
  info.identity = IdentityOf(proc, target, options.labels);
  recording->run.model.info = info;
  recording->run.model.most_ended = kMostEnded;

  const std::string path = options.output.empty() ? absl::StrCat("cowprof-", target, ".json") : options.output;
  absl::StatusOr<std::unique_ptr<TimelineFile>> timeline = TimelineFile::Create(path, info);
  if (!timeline.ok()) return Fail(kCannotWrite, timeline.status().message());
  recording->timeline = *std::move(timeline);
  recording->sinks.push_back(std::make_unique<TimelineSink>(recording->timeline.get()));
  // A program that we started owns stdout: write to stderr, and ticks only with --live.
  FILE* out = info.started_target ? stderr : stdout;
  const bool lines = options.live || !info.started_target;
  const bool screen = options.live && !options.quiet && CanShowScreen(out);
  if (screen) recording->event_loop.TakeJobControl();
  recording->sinks.push_back(NewTerminal(options.quiet ? TerminalMode::kQuiet
                                         : !lines      ? TerminalMode::kAlerts
                                         : screen      ? TerminalMode::kScreen
                                                       : TerminalMode::kLines,
                                         out, recording->page != nullptr ? recording->page->address() : ""));
  if (!options.quiet) {
    absl::FPrintF(stderr, "cowprof: following process %d (%s) and all that it forks; %s (%s); writing %s\n", target,
                  Printable(info.command, 80), ExactnessText(info.exactness), info.rung, path);
  }
  return kDone;
}

// Call before anything is started: refuses a command line that can't work.
int OpenHook(Recording* recording) {
  const std::string& command = recording->options.on_alert;
  if (command.empty()) return kDone;
  absl::StatusOr<std::unique_ptr<HookProcess>> hook =
      HookProcess::Start(command, recording->event_loop.inherited_signals(),
                         [recording](const std::string& failure) { Say(failure, recording); });
  if (!hook.ok()) return Fail(kUsage, absl::StrCat("--on-alert '", Printable(command), "': ", hook.status().message()));
  recording->hook = *std::move(hook);
  return kDone;
}

// Call before anything is started: refuses a port that is in use.
int OpenPage(Recording* recording) {
  if (!recording->options.serve) return kDone;
  absl::StatusOr<std::unique_ptr<PageServer>> page = PageServer::Bind(*recording->options.serve);
  if (!page.ok()) return Fail(kUsage, page.status().message());
  recording->page = *std::move(page);
  return kDone;
}

// Recording continues if the page can't be served.
void StartPage(Recording* recording) {
  if (recording->page == nullptr) return;
  absl::StatusOr<Fd> timeline = recording->timeline->OpenToRead();
  absl::Status status = timeline.status();
  if (status.ok())
    status = recording->page->Start(*std::move(timeline), recording->timeline->path(),
                                    recording->event_loop.inherited_signals());
  if (status.ok()) {
    absl::FPrintF(stderr, "cowprof: live page at %s\n", recording->page->address());
    return;
  }
  Fail(kDone, absl::StrCat("can't serve the page: ", status.message()));
  recording->page = nullptr;
}

void AddNote(std::string note, Recording* recording) {
  if (note.empty()) return;
  if (!recording->options.quiet) Fail(kDone, note);
  recording->notes.push_back(std::move(note));
}

// Lets the recorder survive when memory runs out, as far as it can.
void ProtectSelf(const ProcFs& proc, Recording* recording) {
  LockMemory();
  AddNote(SharedFateNote(recording->info.limits, Limits(proc).Read(getpid())), recording);
}

// From now on the recorder reads data that the target chose: keep only the rights that this takes.
void GiveUp(Recording* recording) {
  const Signalled signalled = {.program = recording->program ? recording->program->pid() : 0,
                               .page_server = recording->page != nullptr ? recording->page->pid() : 0};
  for (std::string& note : GiveUpPrivileges(signalled)) AddNote(std::move(note), recording);
}

int StartProgram(Recording* recording) {
  absl::StatusOr<HeldProgram> program =
      HeldProgram::Start(recording->options.program, recording->event_loop.inherited_signals());
  if (!program.ok()) return Fail(kInternalFailure, program.status().message());
  recording->program.emplace(*std::move(program));
  return kDone;
}

// Prints the verdict.
void Conclude(const std::string& path, Recording* recording) {
  if (recording->options.quiet) return;
  FILE* out = recording->info.started_target ? stderr : stdout;
  absl::FPrintF(out, "\n%s\nrecorded in %s; view it: cowprof view %s\n",
                ReportText(recording->run.model, Judge(recording->run), /*complete=*/true), path, path);
}

}  // namespace

int RunRecording(const RecordOptions& options) {
  if (absl::Status known = CheckWithout(options.without); !known.ok()) return Fail(kUsage, known.message());
  Recording recording = {.options = options, .watch = AlertWatch(options.alerts)};
  if (int code = OpenHook(&recording); code != kDone) return code;
  if (int code = OpenPage(&recording); code != kDone) return code;
  const ProcFs proc;
  if (absl::Status status = CheckProc(proc); !status.ok()) return Fail(kHostCannot, status.message());
  recording.start = BootTime();
  if (options.attach == 0) {
    if (int code = StartProgram(&recording); code != kDone) return code;
  } else if (absl::Status status = CheckTarget(proc, options.attach); !status.ok()) {
    return Fail(kNoProcess, status.message());
  }
  // Make a closed stdout, or a file as long as `ulimit -f` allows, an error of write(2) instead of our death. A program
  // that we started keeps its own dispositions.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  const pid_t target = options.attach != 0 ? options.attach : recording.program->pid();
  RaiseDescriptorLimit();
  recording.event_loop.WatchTarget(target, /*forward_signals=*/options.attach == 0);
  if (int code = Attach(proc, target, &recording); code != kDone) return code;
  if (int code = OpenSinks(proc, target, &recording); code != kDone) return code;
  StartPage(&recording);
  AddNote(NoteOnTarget(proc, target), &recording);
  ProtectSelf(proc, &recording);
  if (recording.program) {
    if (absl::Status status = recording.program->Release(); !status.ok()) {
      recording.timeline->Remove();  // nothing ran: there is nothing to keep
      Fail(kDone, status.message());
      return absl::IsNotFound(status) ? 127 : 126;
    }
  }
  GiveUp(&recording);
  absl::StatusOr<std::string> reason = RunLoop(&recording);
  absl::Status status = reason.ok() ? Finish(*reason, &recording) : reason.status();
  Conclude(recording.timeline->path(), &recording);
  if (recording.hook != nullptr) recording.hook->Finish();
  if (recording.page != nullptr) recording.page->Finish();
  if (!status.ok()) return Fail(absl::IsInternal(status) ? kInternalFailure : kCannotWrite, status.message());
  if (recording.timeline->records_dropped() > 0) return kCannotWrite;
  const std::vector<Alert>& alerts = recording.run.alerts;
  const auto raised = std::find_if(alerts.begin(), alerts.end(), [](const Alert& alert) { return !alert.over; });
  const bool failed = options.fail_on_alert && raised != alerts.end();
  if (recording.program) recording.event_loop.ForwardUntilTargetEnds();
  const int code = recording.program ? ExitOf(recording.program->Wait()).code : kDone;
  if (failed)
    return Fail(kGateHit, absl::StrCat("there was an alert (--fail-on-alert): ", Printable(raised->text, 400)));
  // The program's own status; 128 + signal, as in a shell.
  return code;
}

}  // namespace cowprof
