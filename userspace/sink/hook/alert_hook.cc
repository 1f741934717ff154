// Passes the alert as data only: through the environment, and through a file in memory as stdin, which can neither
// block us nor fill up.
#include "sink/hook/alert_hook.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "model/format.h"
#include "model/judge/alert_format.h"
#include "posix/clock.h"
#include "posix/fd.h"
#include "posix/safe_path.h"
#include "timeline/json_alerts.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

constexpr int kCannotExec = 126;

bool IsFile(const std::string& path) {
  struct stat file;
  return stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode);
}

// Whose rights decide what is found: under sudo not root's.
std::string SelfInWords() {
  const std::string user = absl::StrCat(geteuid());
  const char* const caller = getenv("SUDO_UID");
  return absl::StrCat("user ", user, caller != nullptr && user == caller ? ", who called sudo and runs the hook," : "");
}

// Looks for a program as execvp(3) does, but ignores relative directories in PATH.
absl::StatusOr<std::string> FindProgram(const std::string& name) {
  std::vector<std::string> candidates;
  if (absl::StrContains(name, '/')) {
    candidates.push_back(name);
  } else {
    const char* path = getenv("PATH");
    for (absl::string_view folder : absl::StrSplit(path != nullptr ? path : "/usr/bin:/bin", ':')) {
      if (absl::StartsWith(folder, "/")) candidates.push_back(absl::StrCat(folder, "/", name));
    }
  }
  bool hidden = false;
  for (const std::string& candidate : candidates) {
    struct stat file;
    if (stat(candidate.c_str(), &file) != 0) {
      hidden |= errno == EACCES;
      continue;
    }
    if (!S_ISREG(file.st_mode)) continue;
    if (access(candidate.c_str(), X_OK) != 0)
      return absl::PermissionDeniedError(absl::StrCat(Printable(candidate), " is not executable; chmod +x it"));
    return candidate;
  }
  if (hidden && absl::StrContains(name, '/'))
    return absl::PermissionDeniedError(
        absl::StrCat(SelfInWords(), " may not see ", Printable(name), "; put it where that user may"));
  return absl::NotFoundError(absl::StrCat(hidden ? absl::StrCat(SelfInWords(), " finds") : "there is", " no program '",
                                          Printable(name), "'; give its full path"));
}

// Makes only calls that are safe between fork and exec.
[[noreturn]] void Exec(int input, char* const* words, char* const* environment, const sigset_t& signals) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // if we die, nobody else ends it in time
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (dup2(input, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2) execve(words[0], words, environment);
  _exit(kCannotExec);
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// A file in memory that contains `text`, positioned at its start.
absl::StatusOr<Fd> TextFile(const std::string& text) {
  Fd file(memfd_create("cowprof alert", MFD_CLOEXEC));
  if (!file.ok() || write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      lseek(file.fd(), 0, SEEK_SET) != 0) {
    return absl::ErrnoToStatus(errno, "store the alert for its stdin");
  }
  return file;
}

}  // namespace

HookRun HookRunFor(const Alert& alert, const RunModel& model) {
  Json json = EncodeAlert(alert);
  const ProcessModel* worker = model.Find(alert.index);
  const bool of_limit = alert.rule != AlertRule::kHang;
  json["pid"] = model.info.target.pid;
  json["worker_pid"] = worker != nullptr ? Json(worker->id.pid) : Json(nullptr);
  return {
      .json = Dump(json) + "\n",
      .values = {NameOf(alert.rule), alert.kind_name(), Printable(alert.name, 400),
                 of_limit ? absl::StrCat(alert.limit) : "", of_limit ? absl::StrCat(alert.used) : "",
                 alert.eta ? absl::StrCat(absl::ToDoubleSeconds(*alert.eta)) : "", alert.cause,
                 Printable(alert.text, 400), Printable(alert.advice, 400), absl::StrCat(model.info.target.pid),
                 worker != nullptr ? absl::StrCat(worker->id.pid) : "", alert.diagnosis, Printable(alert.headline, 400),
                 alert.culprit ? absl::StrCat(Printable(alert.culprit->frame.file, 400), ":", alert.culprit->frame.line)
                               : ""}};
}

absl::StatusOr<std::vector<std::string>> SplitWords(absl::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      in_word = false;
      continue;
    }
    if (!std::exchange(in_word, true)) words.emplace_back();
    const bool escapes =
        c == '\\' && i + 1 < text.size() && (quote == 0 || (quote == '"' && absl::StrContains("\"\\$`", text[i + 1])));
    if (escapes) {
      words.back() += text[++i];
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return absl::InvalidArgumentError(absl::StrCat("missing closing ", std::string(1, quote)));
  if (words.empty() || words[0].empty()) return absl::InvalidArgumentError("there is no command in it");
  return words;
}

absl::StatusOr<std::string> CheckHook(const std::vector<std::string>& words, uid_t user) {
  absl::StatusOr<std::string> program = FindProgram(words[0]);
  if (!program.ok()) return program;
  std::vector<std::string> files = {*program};
  std::copy_if(words.begin() + 1, words.end(), std::back_inserter(files), IsFile);
  for (const std::string& file : files) {
    if (std::string weakness = WeaknessOfPath(file, user); !weakness.empty())
      return absl::PermissionDeniedError(
          absl::StrCat(Printable(file), " is not safe to run: ", Printable(weakness, 400)));
  }
  // Not resolved: a program may go by the name of the link that it is called through (busybox).
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(*program, failed);
  return failed ? *program : whole.string();
}

absl::StatusOr<std::unique_ptr<AlertHook>> AlertHook::Create(absl::string_view command, const sigset_t& signals,
                                                             std::function<void(const std::string&)> report,
                                                             const HookLimits& limits) {
  absl::StatusOr<std::vector<std::string>> words = SplitWords(command);
  if (!words.ok()) return words.status();
  absl::StatusOr<std::string> program = CheckHook(*words, getuid());
  if (!program.ok()) return program.status();
  (*words)[0] = *std::move(program);
  return std::unique_ptr<AlertHook>(new AlertHook(*std::move(words), signals, std::move(report), limits));
}

AlertHook::~AlertHook() {
  if (pid_ != 0) Kill();
  if (pid_ != 0) Reap(/*wait=*/true);
}

void AlertHook::Take(HookRun run) {
  if (waiting_.size() == limits_.waiting) {
    ++dropped_;
  } else {
    waiting_.push_back(std::move(run));
  }
  Poll();
}

void AlertHook::Poll() {
  if (pid_ != 0) {
    Reap(/*wait=*/false);
    if (pid_ != 0 && BootTime() - started_ >= limits_.time && !killed_after_) Kill();
  }
  if (pid_ != 0 || waiting_.empty() || BootTime() - started_ < limits_.gap) return;
  if (absl::Status status = Start(waiting_.front()); !status.ok()) Report(std::string(status.message()));
  waiting_.pop_front();
}

void AlertHook::Finish() {
  for (const absl::Duration end = BootTime() + limits_.time; busy() && BootTime() < end; Poll())
    absl::SleepFor(absl::Milliseconds(10));
  if (pid_ != 0) Kill();
  if (pid_ != 0) Reap(/*wait=*/true);
  dropped_ += std::exchange(waiting_, {}).size();
  if (dropped_ > 0)
    report_(absl::StrCat("--on-alert was not run for ", Plural(dropped_, "alert"), ": one runs at a time"));
}

// Checks again who can change the program: it may be another file by now.
absl::Status AlertHook::Start(const HookRun& run) {
  started_ = BootTime();
  if (absl::StatusOr<std::string> checked = CheckHook(words_, getuid()); !checked.ok()) return checked.status();
  absl::StatusOr<Fd> input = TextFile(run.json);
  if (!input.ok()) return input.status();
  std::vector<std::string> environment;
  for (size_t i = 0; i < run.values.size(); ++i)
    environment.push_back(absl::StrCat(kHookVariables[i], "=", run.values[i]));
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "COWPROF_")) environment.emplace_back(*variable);
  }
  const std::vector<char*> words = Pointers(words_), variables = Pointers(environment);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork to run the hook");
  if (pid == 0) Exec(input->fd(), words.data(), variables.data(), signals_);
  setpgid(pid, pid);  // in both processes, as either may come first
  pid_ = pid;
  killed_after_.reset();
  return absl::OkStatus();
}

// Gives up a hook that became another user (sudo): it can't be killed, and waiting for it could take forever.
void AlertHook::Kill() {
  if (!killed_after_) killed_after_ = BootTime() - started_;
  kill(-pid_, SIGKILL);
  if (kill(pid_, SIGKILL) == 0 || errno != EPERM) return;
  pid_ = 0;
  Report(absl::StrCat(*killed_after_ >= limits_.time ? absl::StrCat("took longer than ", HumanDuration(limits_.time))
                                                     : "outlives the recording",
                      " and can't be killed: it became another user; it keeps running"));
}

void AlertHook::Reap(bool wait) {
  int status = 0;
  pid_t got;
  while ((got = waitpid(pid_, &status, wait ? 0 : WNOHANG)) < 0 && errno == EINTR) {
  }
  if (got == 0) return;
  const bool some_live = killed_after_ && kill(-pid_, 0) != 0 && errno == EPERM;
  pid_ = 0;
  if (killed_after_) {
    const absl::string_view except = some_live ? ", except what became another user" : "";
    if (*killed_after_ >= limits_.time)
      return Report(absl::StrCat("took longer than ", HumanDuration(limits_.time), " and was killed", except));
    return Report(absl::StrCat("was killed ", HumanDuration(*killed_after_), " after its start", except,
                               ", because the recording had ended"));
  }
  const Exit exit = ExitOf(status);
  if (exit.signaled) return Report(absl::StrCat("was killed by ", SignalName(exit.signal)));
  if (exit.code == kCannotExec) return Report("could not be run, or ended with status 126; try it by hand");
  if (exit.code != 0) Report(absl::StrCat("ended with status ", exit.code));
}

void AlertHook::Report(const std::string& what) {
  if (!std::exchange(reported_, true))
    report_(absl::StrCat("--on-alert ", Printable(words_[0]), ": ", what, " (reported once)"));
}

}  // namespace cowprof
