// `cowprof pickle [--object EXPR] [--json] PID`: reads the objects that a worker would be sent, and says what spawn and
// forkserver would fail at, and what each worker would cost. Owns the keys of cowprof.pickle/1 that
// timeline/json_start_methods.h does not.
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "attribution/program.h"
#include "cli/commands.h"
#include "cli/slow_note.h"
#include "model/estimate/pickle_cost.h"
#include "model/format.h"
#include "python/pickle_look.h"
#include "python/roots.h"
#include "recorder/fork_hazard_look.h"
#include "recorder/target.h"
#include "sink/report/start_methods_format.h"
#include "source/namespaces.h"
#include "source/pickle_rate.h"
#include "source/proc_text.h"
#include "source/procfs.h"
#include "timeline/json_start_methods.h"

namespace cowprof {
namespace {

void MeasureTime(const ProcFs& proc, const Options& options, const PickleLook& look, StartCostFacts* facts) {
  if (look.root.empty()) return;
  if (!options.time) {
    facts->why_no_time = "--no-time";
    return;
  }
  facts->sample = SampleOf(facts->mix);
  const absl::StatusOr<RunnableInterpreter> interpreter = FindRunnable(proc, options.pid, look.python);
  absl::StatusOr<std::vector<PickleRun>> runs =
      interpreter.ok() ? MeasurePickle(*interpreter, facts->sample) : interpreter.status();
  if (runs.ok()) {
    facts->runs = *std::move(runs);
  } else {
    facts->why_no_time = std::string(runs.status().message());
  }
}

}  // namespace

int Pickle(const Options& options) {
  const ProcFs proc;
  if (absl::Status status = CheckProc(proc); !status.ok()) return Fail(kHostCannot, status.message());
  if (absl::Status status = CheckTarget(proc, options.pid); !status.ok()) return FailOnTarget(status);
  Program program(/*image=*/1, proc, nullptr, /*starting=*/false);
  program.memory().Add({.pid = options.pid});
  program.Inspect(absl::ZeroDuration());
  const auto ended = [&] { return !CheckTarget(proc, options.pid).ok(); };
  const std::string gone = absl::StrCat("process ", options.pid, " ended while it was read");
  if (const std::string why = PickleObstacle(program); !why.empty()) {
    if (ended()) return Fail(kNoProcess, gone);
    return Fail(kHostCannot, absl::StrCat("can't judge what process ", options.pid, " would pickle: ", why));
  }
  const Interpreter& python = program.interpreter();
  const ProcessMemory memory = program.MemoryOf(options.pid);
  const pid_t starter = proc.PidInside(options.pid);
  const auto find_root = [&](const MemoryReader& reader) {
    if (options.object.empty()) return FindWhatWorkersGet(python, reader, starter);
    return FindObject(python, reader, options.object).value_or(PickleRoot{});
  };
  if (!options.object.empty()) {
    const absl::StatusOr<PickleRoot> root = FindObject(python, memory, options.object);
    if (!root.ok() && ended()) return Fail(kNoProcess, gone);
    if (!root.ok()) return Fail(kUsage, absl::StrCat("--object: ", Printable(root.status().message(), 400)));
  }
  StartCostFacts facts;
  const PickleLook look = [&] {
    const SlowNote note(absl::StrCat("reading the objects of process ", options.pid));
    return LookAtPickle(python, memory, find_root, {}, &facts.mix);
  }();
  if (ended()) return Fail(kNoProcess, gone);
  const absl::StatusOr<std::string> status = proc.ReadFile(options.pid, "status");
  if (status.ok()) facts.anonymous_bytes = ParseStatus(*status).anonymous_bytes();
  facts.threads = ListThreadIds(proc, options.pid).size();
  MeasureTime(proc, options, look, &facts);
  std::string text = StartMethodsText(look, facts);
  if (options.json) {
    const Json json = {{"schema", "cowprof.pickle/1"},
                       {"version", COWPROF_VERSION},
                       {"pid", options.pid},
                       {"python", look.python},
                       {"fork_ceiling_bytes", OrNull(facts.anonymous_bytes)},
                       {"start_methods", StartMethodsJson(look)},
                       {"what_if", StartCostsJson(look, facts)},
                       {"why_no_time", facts.why_no_time.empty() ? Json(nullptr) : Json(ValidUtf8(facts.why_no_time))}};
    text = absl::StrCat(Dump(json, 2), "\n");
  }
  return PrintToStdout(text);
}

}  // namespace cowprof
