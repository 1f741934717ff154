// `cowprof doctor [--json] [PID]`: what this host and that process allow, with a remedy for whatever is missing. Really
// loads the probes, then unloads them. Owns the keys of cowprof.doctor/1.
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "attribution/program.h"
#include "cli/commands.h"
#include "model/facts/run_model.h"
#include "model/format.h"
#include "model/judge/fork_hazards.h"
#include "model/judge/start_methods.h"
#include "model/judge/worker_ceiling.h"
#include "python/pickle_look.h"
#include "python/roots.h"
#include "recorder/capability_facts.h"
#include "recorder/fork_hazard_look.h"
#include "recorder/target.h"
#include "sink/report/fork_hazard_format.h"
#include "source/fault_ladder.h"
#include "source/limits.h"
#include "source/namespaces.h"
#include "source/procfs.h"
#include "source/rights_remedy.h"
#include "timeline/json_fields.h"
#include "timeline/json_fork_hazards.h"
#include "timeline/json_limits.h"

namespace cowprof {
namespace {

// What can be read about the process's Python; empty without a process.
struct PythonFacts {
  std::string version, problem;  // version "": not a Python process
  std::string note;              // what can't be read of the process
  std::optional<bool> collector_on;
  std::string start_methods;  // what they would do; "": nothing was found to judge
  std::string judged;         // the object that this was judged by
  std::optional<ForkHazardSeen> before_fork;
};

// A short look: `cowprof pickle` takes the time for a whole one.
void JudgeStartMethods(const Program& program, pid_t pid, PythonFacts* facts) {
  if (!PickleObstacle(program).empty()) return;
  const Interpreter& python = program.interpreter();
  const pid_t starter = ProcFs().PidInside(pid);
  const auto find_root = [&](const MemoryReader& memory) { return FindWhatWorkersGet(python, memory, starter); };
  const PickleLook look =
      LookAtPickle(python, program.MemoryOf(pid), find_root, {.objects = 200'000, .time = absl::Seconds(2)});
  facts->start_methods = StartMethodsSentence(look);
  facts->judged = Printable(look.root);
}

// What a fork now would leave behind. nullopt: its threads can't be listed.
std::optional<ForkHazardSeen> LookBeforeFork(const Program& program, pid_t pid) {
  const ProcFs proc;
  std::vector<pid_t> tids = ListThreadIds(proc, pid);
  if (tids.empty()) return std::nullopt;
  const ProcessMemory memory = program.MemoryOf(pid);
  const bool readable = program.python() == Program::Python::kReadable;
  return LookAtForkHazard(
      proc,
      {.pid = pid, .memory = memory, .python = readable ? &program.interpreter() : nullptr, .tids = std::move(tids)});
}

PythonFacts ReadPython(pid_t pid) {
  if (pid == 0) return {};
  Program program(/*image=*/1, ProcFs(), nullptr, /*starting=*/false);
  program.memory().Add({.pid = pid});
  program.Inspect(absl::ZeroDuration());
  const std::string note = NoteOnTarget(ProcFs(), pid);
  if (program.python() == Program::Python::kNotKnownYet) {
    const std::string& why = program.reason();
    return {.version = "",
            .problem = why.empty() ? "its interpreter is still starting" : why,
            .note = note,
            .collector_on = {}};
  }
  PythonFacts facts = {.version = program.version(),
                       .problem = program.reason(),
                       .note = note,
                       .collector_on = program.CollectorOn(pid)};
  facts.before_fork = LookBeforeFork(program, pid);
  JudgeStartMethods(program, pid, &facts);
  return facts;
}

std::string PythonText(const PythonFacts& python) {
  const char* collector = !python.collector_on ? "" : *python.collector_on ? "; collector: on" : "; collector: off";
  if (python.version.empty() && python.problem.empty())
    return "no Python: counts, regions and native code, but no types and lines";
  const std::string name = python.version.empty() ? "Python" : absl::StrCat("Python ", python.version);
  if (!python.problem.empty()) return absl::StrCat(name, ": ", Printable(python.problem, 200), collector);
  return absl::StrCat(name, ": causes, types and lines are available", collector);
}

// ---- Future workers ----

// nullopt: the process has no memory any more.
std::optional<WorkerCeiling> ReadWorkerCeiling(const Options& options, const std::vector<LimitSample>& limits) {
  if (options.workers == 0) return WorkerCeiling{};
  const absl::StatusOr<std::string> status = ProcFs().ReadFile(options.pid, "status");
  const Count bytes = status.ok() ? ParseStatus(*status).anonymous_bytes() : std::nullopt;
  if (!bytes) return std::nullopt;
  return CeilingOfWorkers(options.workers, *bytes, limits);
}

Json WorkersJson(const WorkerCeiling& ceiling) {
  if (ceiling.workers == 0) return nullptr;
  Json limits = Json::array();
  for (const LimitAfter& limit : ceiling.limits) {
    limits.push_back({{"kind", NameOf(limit.now.kind)},
                      {"name", limit.now.name},
                      {"limit", *limit.now.limit},
                      {"used", limit.now.used},
                      {"used_at_most", limit.used_at_most},
                      {"verdict", NameOf(limit.outlook)}});
  }
  return {{"count", ceiling.workers},
          {"bytes_each_at_most", ceiling.bytes_each},
          {"ceiling_bytes", ceiling.bytes},
          {"limits", std::move(limits)}};
}

std::string WorkersText(const WorkerCeiling& ceiling) {
  if (ceiling.workers == 0) return "";
  std::string out =
      absl::StrFormat("\n  %s: at most %s each, if everything they inherit is copied; %s in total\n",
                      Plural(ceiling.workers, "worker"), HumanBytes(ceiling.bytes_each), HumanBytes(ceiling.bytes));
  absl::StrAppendFormat(&out, "  %-16s %11s %11s %13s  %s\n", "", "limit", "used now", "used at most", "");
  for (const LimitAfter& limit : ceiling.limits) {
    const char* verdict = limit.outlook == Outlook::kWillExceed ? "could exceed" : NameOf(limit.outlook);
    absl::StrAppendFormat(&out, "  %-16s %11s %11s %13s  %s  %s\n", NameOf(limit.now.kind), HumanBytes(limit.now.limit),
                          HumanBytes(limit.now.used), HumanBytes(limit.used_at_most), verdict,
                          Printable(limit.now.name, 60));
  }
  return out;
}

// The rung that gives each capability; null: none.
Json CapabilitiesJson(const std::vector<Rung>& ladder) {
  const ChosenRungs chosen = ChooseRungs(ladder);
  const auto name = [](const Rung* rung) { return rung != nullptr ? Json(rung->name) : Json(nullptr); };
  return {{kFaults, name(chosen.faults)},
          {kCopies, name(chosen.copies)},
          {kFollow, name(chosen.follow)},
          {kSignals, name(chosen.signals)}};
}

// What a rung will be used for: "copies", or "faults, copies"; "": nothing.
std::string UseOf(const Rung& rung, const ChosenRungs& chosen) {
  std::vector<absl::string_view> uses;
  if (chosen.faults == &rung) uses.push_back(kFaults);
  if (chosen.copies == &rung) uses.push_back(kCopies);
  if (chosen.follow == &rung) uses.push_back(kFollow);
  if (chosen.signals == &rung) uses.push_back(kSignals);
  return absl::StrJoin(uses, ", ");
}

Json PrivilegesJson() {
  Json rows = Json::array();
  for (const CapabilityFact& fact : ReadCapabilityFacts())
    rows.push_back({{"name", fact.name}, {"held", fact.held}, {"gives", fact.gives}, {"without", fact.without}});
  return rows;
}

std::string StartMethodsLine(const PythonFacts& python) {
  return absl::StrCat(python.start_methods, "; judged: ", python.judged);
}

// As a row of the report's `fork_hazards`, with what may hang. Null: not looked at.
Json BeforeForkJson(const PythonFacts& python) {
  if (!python.before_fork) return nullptr;
  Json json = ForkHazardJson(*python.before_fork);
  json["hazards"] = Json::array();
  for (const Hazard& hazard : HazardsOf(*python.before_fork)) {
    json["hazards"].push_back({{"what", hazard.what}, {"effect", hazard.effect}, {"advice", hazard.advice}});
  }
  return json;
}

Json DoctorJson(const HostFacts& facts, const std::vector<Rung>& ladder, const std::vector<LimitSample>& limits,
                pid_t pid, const PythonFacts& python) {
  Json rungs = Json::array(), limit_rows = Json::array();
  for (const Rung& rung : ladder) {
    rungs.push_back({{"rung", rung.name},
                     {"capabilities", rung.capabilities},
                     {"exactness", NameOf(rung.exactness)},
                     {"usable", rung.usable},
                     {"reason", TextOrNull(rung.reason)},
                     {"remedy", TextOrNull(rung.remedy)}});
  }
  for (const LimitSample& limit : limits) limit_rows.push_back(EncodeLimit(limit));
  const Rung* chosen = ChosenRung(ladder);
  return {{"schema", "cowprof.doctor/1"},
          {"version", COWPROF_VERSION},
          {"host",
           {{"kernel", facts.kernel},
            {"architecture", facts.architecture},
            {"page_bytes", facts.page_bytes},
            {"cpus", facts.cpus},
            {"kernel_btf", facts.kernel_btf},
            {"host_namespaces", facts.host_namespaces},
            {"host_user_namespace", facts.host_users},
            {"capabilities",
             {{"CAP_BPF", facts.cap_bpf},
              {"CAP_PERFMON", facts.cap_perfmon},
              {"CAP_SYS_PTRACE", facts.cap_sys_ptrace},
              {"CAP_SYS_ADMIN", facts.cap_sys_admin}}}}},
          {"privileges", PrivilegesJson()},
          {"rung", chosen != nullptr ? Json(chosen->name) : Json(nullptr)},
          {"capabilities", CapabilitiesJson(ladder)},
          {"rungs", std::move(rungs)},
          {"pid", pid != 0 ? Json(pid) : Json(nullptr)},
          {"python", TextOrNull(python.version)},
          {"python_problem", TextOrNull(python.problem)},
          {"note", TextOrNull(python.note)},
          {"collector_on", python.collector_on ? Json(*python.collector_on) : Json(nullptr)},
          {"start_methods", python.start_methods.empty() ? Json(nullptr) : Json(StartMethodsLine(python))},
          {"before_fork", BeforeForkJson(python)},
          {"limits", std::move(limit_rows)}};
}

std::string DoctorText(const HostFacts& facts, const std::vector<Rung>& ladder, const std::vector<LimitSample>& limits,
                       pid_t pid, const PythonFacts& python) {
  std::string out = absl::StrFormat("cowprof %s on Linux %s, %s, %d CPUs\n\n", COWPROF_VERSION, facts.kernel,
                                    facts.architecture, facts.cpus);
  const ChosenRungs chosen = ChooseRungs(ladder);
  for (const Rung& rung : ladder) {
    const std::string use = UseOf(rung, chosen);
    absl::StrAppendFormat(&out, "  %-19s %s: %s%s%s\n", rung.name, rung.usable ? "usable" : "not usable",
                          absl::StrJoin(rung.capabilities, ", "), use.empty() ? "" : "; will be used for ", use);
    if (!rung.reason.empty())
      absl::StrAppend(&out, "      why: ", Printable(rung.reason, 300), "\n      do:  ", rung.remedy, "\n");
  }
  out += CapabilityText(ReadCapabilityFacts());
  if (pid != 0) absl::StrAppend(&out, "\n  process ", pid, ": ", PythonText(python), "\n");
  if (!python.note.empty()) absl::StrAppend(&out, "  ", python.note, "\n");
  if (!python.start_methods.empty()) absl::StrAppend(&out, "  start methods: ", StartMethodsLine(python), "\n");
  if (python.before_fork) out += BeforeForkText(*python.before_fork, python.start_methods, !python.problem.empty());
  absl::StrAppend(&out, "\n  limits of ", pid != 0 ? absl::StrCat("process ", pid) : "this shell", "\n");
  for (const LimitSample& limit : limits) {
    const std::string of = limit.limit ? HumanAmount(limit.kind, limit.limit) : "no limit";
    absl::StrAppendFormat(&out, "  %-16s %11s of %11s  %s\n", NameOf(limit.kind), HumanAmount(limit.kind, limit.used),
                          of, Printable(limit.name, 60));
  }
  return out;
}

// nullopt: the process is gone or exiting.
Count StartTicks(pid_t pid) {
  const absl::StatusOr<ProcStat> stat = ProcFs().ReadStat(pid);
  return stat.ok() && !stat->is_exiting() ? Count(stat->start_ticks) : std::nullopt;
}

}  // namespace

int Doctor(const Options& options) {
  if (absl::Status known = CheckWithout(options.without); !known.ok()) return Fail(kUsage, known.message());
  if (absl::Status status = CheckProc(); !status.ok()) return Fail(kHostCannot, status.message());
  const Count start_ticks = StartTicks(options.pid);
  if (options.pid != 0) {
    if (absl::Status status = CheckTarget(ProcFs(), options.pid); !status.ok()) return FailOnTarget(status);
  }
  HostFacts host = ReadHostFacts();
  host.rights_remedy = RightsRemedy(ReadCaller(), MissingCapabilities(host));
  LoadedFaults loaded = LoadFaults(std::move(host), {.target = options.pid, .without = options.without});
  loaded.source = nullptr;
  const HostFacts& facts = loaded.facts;
  const std::vector<Rung>& ladder = loaded.ladder;
  const std::vector<LimitSample> limits = Limits().Read(options.pid != 0 ? options.pid : getpid());
  const PythonFacts python = ReadPython(options.pid);
  const std::optional<WorkerCeiling> workers = ReadWorkerCeiling(options, limits);
  // After all that was read of it: probes take seconds to load on a busy host.
  if (options.pid != 0 && (!workers || !start_ticks || StartTicks(options.pid) != start_ticks))
    return Fail(kNoProcess, absl::StrCat("process ", options.pid, " ended while it was looked at"));
  std::string text = absl::StrCat(DoctorText(facts, ladder, limits, options.pid, python), WorkersText(*workers));
  if (options.json) {
    Json json = DoctorJson(facts, ladder, limits, options.pid, python);
    json["workers"] = WorkersJson(*workers);
    text = absl::StrCat(Dump(json, 2), "\n");
  }
  if (const int code = PrintToStdout(text); code != kDone) return code;
  if (ChosenRung(ladder) != nullptr) return kDone;
  return Fail(kHostCannot, "can't count copies here: doctor's output says why, and what to do");
}

}  // namespace cowprof
