// `cowprof demo`: records demo.py as `cowprof -- CMD` would, explains it, does the same with the fix, and compares.
// Each recording is made by a process of its own, since a recorder gives up its rights for good.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/commands.h"
#include "cli/record_in_child.h"
#include "model/format.h"
#include "posix/fd.h"
#include "posix/output_file.h"
#include "posix/rights.h"
#include "python/layout.h"
#include "recorder/record.h"
#include "sink/report/report.h"
#include "sink/report/report_blame.h"
#include "sink/terminal/columns.h"
#include "source/probe_plan.h"
#include "source/rights_remedy.h"
#include "timeline/timeline_file.h"

extern "C" const char cowprof_demo_script[], cowprof_demo_script_end[];

namespace cowprof {
namespace {

constexpr const char* kSeconds = "5";  // for which the workers read
constexpr size_t kColumns = 80;

void Print(absl::string_view text) {
  for (const std::string& line : WrapTo(text, kColumns)) std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// "": there is none.
std::string FindOnPath(const std::string& name) {
  const char* const path = getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    const std::string file = absl::StrCat(folder.empty() ? "." : folder, "/", name);
    struct stat status;
    if (stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

[[noreturn]] void Exec(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

// "3.11.2"
absl::StatusOr<std::string> VersionOf(const std::string& python) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "make a pipe");
  Fd output(ends[0]), input(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid == 0) {
    dup2(input.fd(), STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    Exec({python, "-I", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"});
  }
  input.Close();
  char text[64];
  std::string version;
  for (ssize_t got; (got = read(output.fd(), text, sizeof(text))) > 0;) version.append(text, got);
  int status = 0;
  waitpid(pid, &status, 0);
  if (status != 0)
    return absl::FailedPreconditionError(
        absl::StrCat(Printable(python), " can't be run; put another first on the PATH"));
  return std::string(absl::StripSuffix(version, "\n"));
}

// A Python that cowprof may record, or why not.
absl::StatusOr<std::string> FindPython() {
  const std::string python = FindOnPath("python3");
  if (python.empty())
    return absl::NotFoundError("there is no python3 on the PATH; install one, as with: sudo apt install python3");
  if (access(python.c_str(), R_OK) != 0) {  // the kernel keeps processes of such a program from others
    return absl::PermissionDeniedError(
        absl::StrCat(Printable(python),
                     " may not be read by this user, and so neither may what it runs; put another first on the PATH"));
  }
  const absl::StatusOr<std::string> version = VersionOf(python);
  if (!version.ok()) return version.status();
  const std::vector<std::string> numbers = absl::StrSplit(*version, '.');
  int major = 0, minor = 0;
  const bool known =
      numbers.size() == 3 && absl::SimpleAtoi(numbers[0], &major) && absl::SimpleAtoi(numbers[1], &minor);
  if (!known || std::pair(major, minor) < std::pair(3, static_cast<int>(kOldestMinor))) {
    return absl::FailedPreconditionError(absl::StrCat(Printable(python), " is Python ", Printable(*version),
                                                      ", and cowprof reads 3.", kOldestMinor, " to 3.", kNewestMinor,
                                                      "; put a newer one first on the PATH"));
  }
  return python;
}

// A folder of its own below $TMPDIR or /tmp. `keep`: it stays, and belongs to the user who called sudo.
class Folder {
 public:
  static absl::StatusOr<Folder> Make(bool keep) {
    const char* const base = getenv("TMPDIR");
    std::string path = absl::StrCat(base == nullptr || *base == '\0' ? "/tmp" : base, "/cowprof-demo-XXXXXX");
    if (mkdtemp(path.data()) == nullptr) {
      return absl::ErrnoToStatus(
          errno, absl::StrCat("make a folder in ", path.substr(0, path.rfind('/')), " (TMPDIR names another)"));
    }
    const std::optional<UserIds> user = keep ? InvokedBySudo() : std::nullopt;
    if (user && chown(path.c_str(), user->uid, user->gid) != 0)
      return absl::ErrnoToStatus(errno, absl::StrCat("give ", path, " to user ", user->uid));
    return Folder(path, keep);
  }
  Folder(Folder&& other) : path_(std::exchange(other.path_, "")), keep_(other.keep_) {}
  ~Folder() {
    std::error_code ignored;
    if (!keep_ && !path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(absl::string_view name) const { return absl::StrCat(path_, "/", name); }

 private:
  Folder(std::string path, bool keep) : path_(std::move(path)), keep_(keep) {}
  std::string path_;
  bool keep_;
};

absl::Status WriteScript(const std::string& path) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("create ", path));
  return WriteFully(file.fd(),
                    {cowprof_demo_script, static_cast<size_t>(cowprof_demo_script_end - cowprof_demo_script)}, 0);
}

// Ctrl-C and SIGTERM end the program that is recorded, and then the demo: what there is by then is explained, and
// nothing stays behind.
volatile sig_atomic_t stopped_by = 0;

void StopWithProgram() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { stopped_by = number; };
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

// `recorded`: how the recorder ended. kDone: neither was stopped.
int StoppedStatus(int recorded) {
  if (recorded == 128 + SIGINT || recorded == 128 + SIGTERM) return recorded;
  return stopped_by != 0 ? 128 + stopped_by : kDone;
}

int SayStopped(int status, const std::string& timeline) {
  Fail(kDone, absl::StrCat("demo: stopped, so nothing is compared",
                           access(timeline.c_str(), F_OK) == 0 ? "; recorded until then: " + timeline : ""));
  return status;
}

// What the workers copied, and why that can't be told in full.
struct Outcome {
  Run run;
  Findings findings;
  uint64_t copied_bytes() const { return findings.workers.copies * run.model.info.page_bytes; }
};

absl::StatusOr<Outcome> ReadOutcome(const std::string& path) {
  Outcome outcome;
  const absl::StatusOr<TimelineContents> contents = ReadRun(path, &outcome.run);
  if (!contents.ok()) return contents.status();
  outcome.findings = Judge(outcome.run);
  if (!outcome.findings.workers.copies_known)
    return absl::FailedPreconditionError("the copies of the workers could not be counted");
  return outcome;
}

// What this run could not see, and what to do about it.
void SayWhatIsMissing(const RunModel& model, const std::vector<std::string>& without) {
  if (model.info.rung == kRungPageMap) {
    HostFacts facts = ReadHostFacts();
    facts.rights_remedy = RightsRemedy(ReadCaller(), MissingCapabilities(facts));
    const Rung best = PlanProbes(facts, without).front();
    Print(absl::StrCat("Copied pages are read from the page map, because ", best.name, " can't be used: ",
                       Printable(best.reason, 300), ". That does not show which lines copied them. To see them:"));
    std::printf("  %s\n", best.remedy.c_str());  // in one piece, to be copied
  }
  if (model.target() != nullptr && !model.target()->python_problem.empty()) {
    Print(absl::StrCat("The objects of this Python can't be read, so nothing is said of causes and types: ",
                       Printable(model.target()->python_problem, 300)));
  }
}

// Runs beside us, as the user whose desktop it is. Not as root alone: browsers refuse that.
void OpenOnDesktop(const std::string& page) {
  if (getenv("DISPLAY") == nullptr && getenv("WAYLAND_DISPLAY") == nullptr) return;
  std::vector<std::string> words = {FindOnPath("xdg-open"), page};
  if (words[0].empty()) return;
  if (geteuid() == 0) {
    const std::optional<UserIds> user = InvokedBySudo();
    const std::string sudo = FindOnPath("sudo");
    if (!user || user->uid == 0 || sudo.empty()) return;
    words.insert(words.begin(), {sudo, "-n", "-H", "-u", absl::StrCat("#", user->uid),
                                 "--preserve-env=DISPLAY,WAYLAND_DISPLAY,XAUTHORITY,XDG_RUNTIME_DIR", "--"});
  }
  const pid_t pid = fork();
  if (pid != 0) {
    if (pid > 0) waitpid(pid, nullptr, 0);
    return;
  }
  if (fork() != 0) _exit(0);  // a grandchild: nobody has to wait for it
  setsid();
  const int null = open("/dev/null", O_RDWR);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  Exec(words);
}

// Returns where the page is; falls back to the folder of the recordings, unless another was asked for.
absl::StatusOr<std::string> MakePage(const Options& options, const std::string& timeline, const Folder& folder) {
  std::error_code ignored;
  const std::string wanted = options.output.empty() ? "cowprof-demo.html" : options.output;
  absl::Status status = WritePage({timeline}, wanted);
  if (status.ok()) return std::filesystem::absolute(wanted, ignored).string();
  if (!options.output.empty()) return status;
  const std::string aside = folder / "demo.html";
  Print(absl::StrCat("The page can't be in this folder (", status.message(), ")."));
  status = WritePage({timeline}, aside);
  if (!status.ok()) return status;
  return aside;
}

int Explain(const Outcome& outcome, const std::string& timeline, const Folder& folder, const Options& options) {
  std::printf("\n");
  Print(outcome.findings.verdict);
  std::printf("%s\n", RemedyText(outcome.findings).c_str());
  SayWhatIsMissing(outcome.run.model, options.without);
  const absl::StatusOr<std::string> page = MakePage(options, timeline, folder);
  if (!page.ok()) return Fail(kCannotWrite, absl::StrCat("demo: ", page.status().message()));
  std::printf("The page: %s\n", page->c_str());
  std::fflush(stdout);
  if (options.open) OpenOnDesktop(*page);
  return kDone;
}

int Compare(const Outcome& before, const Outcome& after) {
  const uint64_t copied = before.copied_bytes(), now = after.copied_bytes();
  if (now >= copied) {
    return Fail(kInternalFailure,
                absl::StrCat("demo: the fixed program copied ", HumanBytes(now), ", the other ", HumanBytes(copied),
                             ": that is wrong; please report it with the output of cowprof doctor"));
  }
  std::printf("\n");
  Print(absl::StrFormat(
      "The same rows, kept in buffers instead of objects: the workers copied %s instead of %s (%.1f %% less).",
      HumanBytes(now), HumanBytes(copied), 100.0 * (copied - now) / copied));
  return kDone;
}

}  // namespace

int Demo(const Options& options) {
  if (absl::Status known = CheckWithout(options.without); !known.ok()) return Fail(kUsage, known.message());
  StopWithProgram();
  const absl::StatusOr<std::string> python = FindPython();
  if (stopped_by != 0) return SayStopped(128 + stopped_by, "");
  if (!python.ok()) return Fail(kHostCannot, absl::StrCat("demo: ", python.status().message()));
  std::filesystem::path page = std::filesystem::path(options.output).parent_path();
  if (page.empty()) page = ".";
  if (!options.output.empty() && access(page.c_str(), W_OK) != 0) {
    return Fail(kCannotWrite, absl::StrCat("demo: can't write ", Printable(options.output), ": ", strerror(errno),
                                           "; choose another with --output"));
  }
  // Root runs the program: nobody else may write it. The recordings are made as the user who called.
  const absl::StatusOr<Folder> code = Folder::Make(/*keep=*/false), folder = Folder::Make(/*keep=*/true);
  for (const absl::Status& status : {code.status(), folder.status()})
    if (!status.ok()) return Fail(kCannotWrite, absl::StrCat("demo: ", status.message()));
  const std::string script = *code / "demo.py";
  if (absl::Status status = WriteScript(script); !status.ok())
    return Fail(kCannotWrite, absl::StrCat("demo: ", status.message()));

  std::vector<Outcome> outcomes;
  for (const std::string rows : {"objects", "buffer"}) {
    const bool first = outcomes.empty();
    std::printf("%s", first ? "" : "\n");
    Print(first ? "Two forked workers read rows that are Python objects:" : "The same with rows that are in buffers:");
    RecordOptions record = options;
    record.program = {*python, "-I", "-B", script, rows, kSeconds};
    record.output = *folder / (rows + ".json");
    record.interval = absl::Milliseconds(500);
    record.live = true;
    record.verdict = false;
    const int recorded = RecordInChild(record, {}), stopped = StoppedStatus(recorded);
    if (recorded != kDone && stopped == kDone) return recorded;
    absl::StatusOr<Outcome> outcome = ReadOutcome(record.output);
    if (!outcome.ok() && stopped == kDone)
      return Fail(kInternalFailure, absl::StrCat("demo: ", outcome.status().message()));
    if (first && outcome.ok()) {
      if (const int code = Explain(*outcome, record.output, *folder, options); code != kDone) return code;
    }
    if (const int status = StoppedStatus(recorded); status != kDone) return SayStopped(status, record.output);
    outcomes.push_back(*std::move(outcome));
  }
  if (const int code = Compare(outcomes[0], outcomes[1]); code != kDone) return code;
  const std::string both =
      absl::StrCat("Both recordings: ", *folder / "objects.json", " and ", *folder / "buffer.json");
  return PrintToStdout(absl::StrCat(absl::StrJoin(WrapTo(both, kColumns), "\n"), "\n"));
}

}  // namespace cowprof
