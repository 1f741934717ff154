#include "recorder/set_up.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "model/format.h"
#include "posix/clock.h"
#include "posix/exit_status.h"
#include "recorder/privileges.h"
#include "recorder/self_protection.h"
#include "sink/metrics/metrics_sink.h"
#include "sink/report/report.h"
#include "sink/terminal/terminal.h"
#include "sink/timeline_sink.h"
#include "source/copy_calibration.h"
#include "source/environment.h"
#include "source/fault_ladder.h"
#include "source/limits.h"
#include "source/namespaces.h"
#include "source/pagemap.h"
#include "source/probe_plan.h"
#include "source/proc_text.h"
#include "source/rights_remedy.h"

namespace cowprof {
namespace {

constexpr size_t kMostEnded = 128;  // rows of ended processes that the recorder itself keeps; the file has all

// Rows of the region table: each of up to 64 processes may touch every 2 MiB of the target. 5 MiB of kernel memory at
// least, and 35 for all maps.
uint64_t RegionsOf(uint64_t target_bytes, uint64_t most) {
  return std::clamp<uint64_t>(64 * (target_bytes / kRegionBytes), 65'536, most);
}

// Of a target that runs: twice what it has, and 1 GiB.
uint64_t RegionsOfRunning(const ProcFs& proc, pid_t target) {
  const absl::StatusOr<std::string> status = proc.ReadFile(target, "status");
  const uint64_t anon_bytes = status.ok() ? ParseStatus(*status).anon_bytes.value_or(0) : 0;
  return RegionsOf(2 * anon_bytes + (1 << 30), 491'520);  // 38 MiB, 68 for all maps
}

// The best one on this architecture.
const Rung& BestRung(const HostFacts& facts, const std::vector<Rung>& ladder) {
  return ladder[facts.fault_tracepoint || !facts.kernel_btf ? 0 : 1];
}

bool Without(const RecordOptions& options, absl::string_view name) {
  return std::find(options.without.begin(), options.without.end(), name) != options.without.end();
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
  identity.rank = RankFactsOf(ParseEnvironment(proc.ReadHead(target, "environ", kMaxEnvironmentBytes)));
  return identity;
}

// What stands against exact counts, and what to do about it. "": they are exact, or the user forbade the rung.
std::string WhyNotExact(const RecordOptions& options, HostFacts facts, const Rung& used) {
  if (used.exactness == Exactness::kExact) return "";
  facts.rights_remedy = RightsRemedy(ReadCaller(), MissingCapabilities(facts));  // only a message may have it
  const std::vector<Rung> ladder = PlanProbes(facts, options.without);
  const Rung& best = BestRung(facts, ladder);
  if (best.reason.empty() || Without(options, best.name) || Without(options, kCopies) || Without(options, kFaults))
    return "";
  return absl::StrCat("copies are not counted exactly, since ", best.name,
                      " can't be used: ", Printable(best.reason, 300), "; ", Printable(best.remedy, 600));
}

}  // namespace

uint64_t RegionsOfStarted(const std::vector<LimitSample>& limits) {
  uint64_t least = UINT64_MAX;
  for (const LimitSample& row : limits) {
    if (IsMemory(row.kind) && row.limit) least = std::min(least, *row.limit);
  }
  return RegionsOf(least, 262'144);  // 20 MiB, 50 for all maps
}

void StartScout(Recording* recording) {
  const RecordOptions& options = recording->options;
  if (Without(options, kWithoutCauses) || Without(options, kWithoutStartMethods)) return;
  absl::StatusOr<std::unique_ptr<StartMethodScout>> scout = StartMethodScout::Start();
  if (scout.ok()) {
    recording->scout = *std::move(scout);
  } else {
    AddNote(absl::StrCat("start methods are not judged: ", scout.status().message()), recording);
  }
}

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

int StartMetricsFile(Recording* recording) {
  const std::optional<Watched>& watched = recording->options.watched;
  if (watched && watched->metrics >= 0) {
    recording->metrics_file = MetricsFile::Over(Fd(watched->metrics));
    return kDone;
  }
  if (recording->options.metrics_file.empty()) return kDone;
  absl::StatusOr<std::unique_ptr<MetricsFile>> file = MetricsFile::Start();
  if (!file.ok()) return Fail(kInternalFailure, absl::StrCat("--metrics-file: ", file.status().message()));
  recording->metrics_file = *std::move(file);
  return kDone;
}

std::string ExpandName(absl::string_view name, const RunIdentity& identity) {
  const auto part = [](const std::string& text) {
    std::string safe = text.empty() ? "none" : text;
    for (char& c : safe) {
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && !absl::StrContains("-_.", c)) c = '_';
    }
    if (safe.find_first_not_of('.') == safe.npos) safe.assign(safe.size(), '_');  // as a folder ".." leads out
    return safe;
  };
  const RankFacts& rank = identity.rank;
  const auto job = identity.labels.find("job_id");
  const bool ranked = rank.source != RankSource::kNone && rank.rank;
  return absl::StrReplaceAll(name, {{"%%", "%"},
                                    {"%h", part(identity.host)},
                                    {"%j", part(job != identity.labels.end() ? job->second : rank.job_id)},
                                    {"%r", part(ranked ? absl::StrCat(*rank.rank) : "")}});
}

int OpenPage(Recording* recording) {
  const RecordOptions& options = recording->options;
  if (!options.serve && !options.metrics_listen) return kDone;
  absl::StatusOr<std::unique_ptr<PageServer>> page = PageServer::Bind(options.serve, options.metrics_listen);
  if (!page.ok()) return Fail(kUsage, page.status().message());
  recording->page = *std::move(page);
  return kDone;
}

int FailToStart(const absl::Status& status) {
  Fail(kDone, status.message());
  return absl::IsNotFound(status) ? 127 : 126;
}

int StartProgram(Recording* recording) {
  if (absl::Status status = CheckProgram(recording->options.program[0]); !status.ok()) return FailToStart(status);
  absl::StatusOr<HeldProgram> program =
      HeldProgram::Start(recording->options.program, recording->event_loop.inherited_signals());
  if (!program.ok()) return Fail(kInternalFailure, program.status().message());
  recording->program.emplace(*std::move(program));
  return kDone;
}

int Attach(const ProcFs& proc, pid_t target, Recording* recording) {
  RunInfo& info = recording->info;
  CopyCalibration calibration(sysconf(_SC_PAGESIZE));
  HostFacts host = ReadHostFacts();
  const auto t0_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(recording->start));
  const size_t sample_diverged = recording->options.verify ? kMaxDivergedSample : 0;
  LoadedFaults loaded = LoadFaults(
      std::move(host), {.target = target,
                        .without = recording->options.without,
                        .bpf = {.max_regions = recording->program ? RegionsOfStarted(Limits(proc).Read(target))
                                                                  : RegionsOfRunning(proc, target),
                                .every_copy = recording->options.every_copy,
                                .copy_sites = !Without(recording->options, kWithoutStacks),
                                .bare_copy_ns = [&calibration] { return calibration.Take(); }},
                        .pagemap = {.t0_ns = t0_ns, .sample_diverged = sample_diverged}});
  info.copy_ns = calibration.Take();
  const HostFacts& facts = loaded.facts;
  std::vector<Rung>& ladder = loaded.ladder;
  const Rung* rung = ChosenRung(ladder);
  if (rung == nullptr) {
    // Only a message may have the command line.
    loaded.facts.rights_remedy = RightsRemedy(ReadCaller(), MissingCapabilities(loaded.facts));
    ladder = PlanProbes(loaded.facts, recording->options.without);
    const Rung &best = BestRung(loaded.facts, ladder), &last = ladder.back();  // which has the fewest requirements
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
  info.without = recording->options.without;
  recording->why_not_exact = WhyNotExact(recording->options, loaded.facts, *rung);
  std::unique_ptr<FaultSource> faults = std::move(loaded.source);
  if (absl::Status status = faults->Follow(target); !status.ok()) {
    return Fail(absl::IsNotFound(status) ? kNoProcess : kInternalFailure,
                absl::StrCat("follow process ", target, ": ", status.message()));
  }
  recording->event_loop.WatchEvents(faults->wake_fd(), faults->urgent_wake_fd());
  const CollectorOptions options = {
      .page_bytes = info.page_bytes,
      .t0_ns = t0_ns,
      .probes = rung->name != kRungPageMap,
      .causes = !Without(recording->options, kWithoutCauses),
      .hangs = !Without(recording->options, kWithoutCauses) && !Without(recording->options, kWithoutHangs),
      .verify = recording->options.verify};
  recording->collector = std::make_unique<Collector>(std::move(faults), proc, Limits(proc), options);
  if (recording->scout != nullptr) recording->collector->WatchStartMethods(std::move(recording->scout));
  return kDone;
}

int OpenSinks(const ProcFs& proc, pid_t target, Recording* recording) {
  const RecordOptions& options = recording->options;
  RunInfo& info = recording->info;
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(target);
  info.target = {target, stat.ok() ? stat->start_ns() : 0};
  info.started = WallTimeOf(recording->start);  // t = 0 was before the probes were loaded
  info.interval = options.interval;
  info.started_target = recording->program.has_value();
  if (stat.ok()) {
    const absl::Duration born = absl::Nanoseconds(static_cast<int64_t>(stat->start_ns()));
    info.target_age = std::max(recording->start - born, absl::ZeroDuration());
  }
  info.command = info.started_target ? absl::StrJoin(options.program, " ") : proc.ReadCommandLine(target);
  if (info.command.empty() && stat.ok()) info.command = stat->comm;
  const Limits limits(proc);
  info.limits = limits.Read(target);
  info.shm_of_host = HasHostPids() && limits.SharesShmWithInit(target);
  info.identity = IdentityOf(proc, target, options.labels);
  recording->run.model.info = info;
  recording->run.model.most_ended = kMostEnded;

  const auto expanded = [&](const std::string& name) {
    return options.expand_names ? ExpandName(name, info.identity) : name;
  };
  const std::string path =
      options.output.empty() ? absl::StrCat("cowprof-", target, ".json") : expanded(options.output);
  absl::StatusOr<std::unique_ptr<TimelineFile>> timeline = TimelineFile::Create(path, info);
  if (!timeline.ok()) {
    const absl::string_view why = timeline.status().message();
    const bool named = !options.output.empty() || absl::StrContains(why, "--output");
    return Fail(kCannotWrite, absl::StrCat(why, named ? "" : "; --output FILE writes the recording elsewhere"));
  }
  recording->timeline = *std::move(timeline);
  recording->sinks.push_back(std::make_unique<TimelineSink>(recording->timeline.get()));
  // After the recording: metrics of one that never began would say that it records, for ever.
  if (recording->metrics_file != nullptr) {
    MetricsTally tally;
    const std::string text = MetricsText(recording->run.model, Findings(), {.sampled = info.started}, &tally);
    if (absl::Status status = recording->metrics_file->Open(expanded(options.metrics_file), text); !status.ok()) {
      if (!options.watched) {
        recording->timeline->Remove();
        return Fail(kCannotWrite, status.message());
      }
      recording->metrics_file = nullptr;  // no fault of the recording
      Fail(kDone,
           absl::StrCat("process ", target,
                        " is recorded without metrics: the process of cowprof watch that serves them took none"));
    }
  }
  if (recording->metrics_file != nullptr) {
    recording->sinks.push_back(
        std::make_unique<MetricsSink>(std::move(recording->metrics_file), recording->run.model,
                                      [recording](const std::string& failure) { Say(failure, recording); }));
  }
  // After all that is forked, which must not have these descriptors, and before the right to open them is given up.
  recording->out.OpenAgain();
  recording->err.OpenAgain();
  // A program that we started owns stdout: write to stderr, and ticks only with --live.
  FILE* out = info.started_target ? stderr : stdout;
  const bool lines = options.live || !info.started_target;
  const bool screen = options.live && !options.quiet && CanShowScreen(out);
  if (screen) recording->event_loop.TakeJobControl();
  recording->sinks.push_back(NewTerminal(options.quiet ? TerminalMode::kQuiet
                                         : !lines      ? TerminalMode::kAlerts
                                         : screen      ? TerminalMode::kScreen
                                                       : TerminalMode::kLines,
                                         info.started_target ? &recording->err : &recording->out,
                                         IsColoured(options.colour, out),
                                         recording->page != nullptr ? recording->page->address() : ""));
  if (!options.quiet) {
    absl::FPrintF(stderr, "cowprof: following process %d (%s) and all that it forks; %s (%s); writing %s\n", target,
                  Printable(info.command, 80), ExactnessText(info.exactness), info.rung, path);
    if (options.verdict && !recording->why_not_exact.empty()) Fail(kDone, recording->why_not_exact);
  }
  return kDone;
}

void StartPage(Recording* recording) {
  if (recording->page == nullptr) return;
  absl::StatusOr<Fd> timeline = recording->timeline->OpenToRead();
  absl::Status status = timeline.status();
  if (status.ok())
    status = recording->page->Start(*std::move(timeline), recording->timeline->path(),
                                    recording->event_loop.inherited_signals());
  if (status.ok()) {
    const std::optional<ServeAddress>& metrics = recording->options.metrics_listen;
    if (recording->options.serve) absl::FPrintF(stderr, "cowprof: live page at %s\n", recording->page->address());
    if (metrics) {
      absl::FPrintF(stderr, "cowprof: metrics at %s%s\n", recording->page->metrics_address(),
                    IsLoopback(metrics->host) ? "" : ", for every machine that reaches this address");
    }
    return;
  }
  Fail(kDone, absl::StrCat("can't serve ", recording->options.serve ? "the page: " : "metrics: ", status.message()));
  recording->page = nullptr;
}

void AddNote(std::string note, Recording* recording) {
  if (note.empty()) return;
  if (!recording->options.quiet) Fail(kDone, note);
  recording->notes.push_back(std::move(note));
}

void ProtectSelf(const ProcFs& proc, Recording* recording) {
  LockMemory();
  AddNote(SharedFateNote(recording->info.limits, Limits(proc).Read(getpid())), recording);
}

void GiveUp(Recording* recording) {
  const Signalled signalled = {.program = recording->program ? recording->program->pid() : 0,
                               .page_server = recording->page != nullptr ? recording->page->pid() : 0};
  for (std::string& note : GiveUpPrivileges(signalled)) AddNote(std::move(note), recording);
}

}  // namespace cowprof
