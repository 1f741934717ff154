// `cowprof prove --fix CMD -- CMD`: records both in turn, and holds what was predicted against what was measured.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/commands.h"
#include "cli/record_in_child.h"
#include "model/format.h"
#include "posix/invoking_user.h"
#include "posix/output_file.h"
#include "sink/compare/diff.h"
#include "sink/hook/alert_hook.h"
#include "source/probe_plan.h"
#include "timeline/json_fields.h"
#include "timeline/timeline_file.h"

namespace cowprof {
namespace {

struct Arm {
  const char* name;
  std::vector<std::string> program;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> recordings;
};

// Remedies that only the program itself can apply, and what to write.
std::string MustBeCode(absl::string_view fix) {
  const std::pair<absl::string_view, absl::string_view> known[] = {
      {"gc.freeze", "import gc; gc.collect(); gc.freeze()"},
      {"gc-freeze", "import gc; gc.collect(); gc.freeze()"},
      {"gc.disable", "import gc; gc.collect(); gc.disable()"},
      {"gc-disable", "import gc; gc.collect(); gc.disable()"},
      {"malloc_trim", "import ctypes; ctypes.CDLL('libc.so.6').malloc_trim(0)"},
      {"malloc-trim", "import ctypes; ctypes.CDLL('libc.so.6').malloc_trim(0)"}};
  for (const auto& [name, code] : known) {
    if (fix == name)
      return absl::StrCat("prove: ", name, " takes code in the program, and cowprof runs none there: write `", code,
                          "` where the workers are about to be made, and give that program as --fix");
  }
  return "";
}

std::string Conditions() {
  std::ifstream file("/proc/self/cgroup");
  std::string line, cgroup = "unknown";
  while (std::getline(file, line)) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() == 3 && (parts[1].empty() || parts[1] == "memory")) cgroup = parts[2];
  }
  return absl::StrCat("both arms alternate on ", Plural(sysconf(_SC_NPROCESSORS_ONLN), "CPU"), ", nice ",
                      getpriority(PRIO_PROCESS, 0), ", in cgroup ", Printable(cgroup),
                      "; the page cache is as the run before leaves it");
}

// Returns an errno value; 0: it is there.
int MakeFolder(const std::string& folder) {
  AsInvokingUser user;  // who writes the recordings there
  return mkdir(folder.c_str(), 0755) == 0 || errno == EEXIST ? 0 : errno;
}

// Which file this is; a recorder that fails at its start leaves an earlier one in place.
std::optional<std::pair<dev_t, ino_t>> FileAt(const std::string& path) {
  AsInvokingUser user;  // in whose folder, on NFS, root may not even look
  struct stat file;
  if (stat(path.c_str(), &file) != 0) return std::nullopt;
  return std::pair(file.st_dev, file.st_ino);
}

// Whether this is the status of the program. A recorder that wrote a file has few of its own.
bool IsOfProgram(int status, bool fail_on_alert, const std::string& recording) {
  if (status != kInternalFailure && status != kCannotWrite && !(fail_on_alert && status == kGateHit)) return true;
  Run run;
  if (!ReadRun(recording, &run).ok() || run.model.target() == nullptr) return false;
  const std::optional<Exit>& exit = run.model.target()->exit;
  return exit && exit->code == status;
}

// nullopt: it could be recorded, and ended well.
std::optional<int> RecordArm(const Options& options, const std::string& folder, int run, Arm* arm) {
  RecordOptions record = options;
  record.program = arm->program;
  record.output = absl::StrCat(folder, "/", arm->name, "-", run, ".json");
  record.quiet = true;
  std::fprintf(stderr, "cowprof: run %d of %d, %s: %s\n", run, options.compare.runs, arm->name,
               Printable(absl::StrJoin(arm->program, " ")).c_str());
  const auto earlier = FileAt(record.output);
  const int status = RecordInChild(record, arm->environment);
  if (const auto file = FileAt(record.output); !file || file == earlier)  // the recorder has said why
    return status == kDone ? static_cast<int>(kInternalFailure) : status;
  if (status == kDone) {
    arm->recordings.push_back(record.output);
    return std::nullopt;
  }
  const bool stopped = status == 128 + SIGINT || status == 128 + SIGTERM;
  const bool by_program = !stopped && IsOfProgram(status, record.fail_on_alert, record.output);
  const std::string what = stopped                             ? "was stopped"
                           : !by_program && status == kGateHit ? "raised an alert"
                                                               : absl::StrCat("ended with status ", status);
  Fail(kDone, absl::StrCat("prove: run ", run, by_program ? " of the program " : " ", arm->name, " the fix ", what,
                           ", so nothing is proven; its recording: ", record.output));
  return by_program ? static_cast<int>(kUsage) : status;
}

}  // namespace

int Prove(const Options& options) {
  const CompareOptions& compare = options.compare;
  if (absl::Status known = CheckWithout(options.without); !known.ok()) return Fail(kUsage, known.message());
  if (compare.fix.empty() && compare.fix_environment.empty())
    return Fail(kUsage, "prove: no fix is given; give --fix CMD, or --fix-env NAME=VALUE for the same command");
  if (const std::string why = MustBeCode(compare.fix); !why.empty()) return Fail(kUsage, why);
  Arm before = {.name = "before", .program = options.program}, after = {.name = "after", .program = options.program};
  after.environment = compare.fix_environment;
  if (!compare.fix.empty()) {
    absl::StatusOr<std::vector<std::string>> words = SplitWords(compare.fix);
    if (!words.ok() || words->empty()) return Fail(kUsage, "prove: --fix is not a command line");
    after.program = *std::move(words);
  }
  const std::string folder = options.output.empty() ? "cowprof-proof" : options.output;
  if (const int error = MakeFolder(folder); error != 0)
    return Fail(kCannotWrite, absl::StrCat("prove: make the folder ", Printable(folder), ": ", strerror(error),
                                           "; name another with --output"));
  std::fprintf(stderr, "cowprof: %s\n", Conditions().c_str());
  for (int run = 1; run <= compare.runs; ++run) {
    for (Arm* arm : {&before, &after}) {
      if (const std::optional<int> failure = RecordArm(options, folder, run, arm)) return *failure;
    }
  }
  Diff diff;
  for (const auto& [arm, side] : {std::pair(&before, &diff.a), std::pair(&after, &diff.b)}) {
    for (const std::string& path : arm->recordings) {
      absl::StatusOr<RunFigures> figures = ReadFigures(path);
      if (!figures.ok()) return Fail(kInternalFailure, figures.status().message());
      side->push_back(*std::move(figures));
    }
  }
  diff.comparison = Compare(diff.a, diff.b);
  const std::string table = folder + "/proof.md", page = folder + "/proof.html";
  const std::string markdown = absl::StrCat(DiffMarkdown(diff), "\nConditions: ", Conditions(), ".\n");
  if (absl::Status status = ReplaceOutputFile(table, markdown); !status.ok())
    return Fail(kCannotWrite, status.message());
  if (absl::Status status = WritePage({before.recordings[0], after.recordings[0]}, page, &diff); !status.ok())
    return Fail(kCannotWrite, status.message());
  std::string text = FormatDiff(diff, compare.format);
  if (compare.format == OutputFormat::kText)
    absl::StrAppend(&text, "\n  for a pull request: ", table, "\n  side by side:       ", page, "\n");
  if (const int code = PrintToStdout(text); code != kDone) return code;
  return diff.comparison.verdict ? kDone : Fail(kUsage, DiffSentence(diff));
}

}  // namespace cowprof
