// Checks permissions by opening what will be read. A held program waits for a byte on a pipe.
#include "recorder/target.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "posix/exit_status.h"
#include "posix/rights.h"
#include "source/rights_remedy.h"

namespace cowprof {
namespace {

bool GainedRightsByExec() { return getauxval(AT_SECURE) != 0; }

// Makes only calls that are safe between fork and exec.
[[noreturn]] void RunHeld(int go, int failure, char* const* words, char* const* variables, const sigset_t& signals) {
  char byte = 0;
  ssize_t got;
  while ((got = read(go, &byte, 1)) < 0 && errno == EINTR) {
  }
  if (got != 1) _exit(125);  // never released
  // Where Yama lets only ancestors read memory (ptrace_scope 1), the recorder's own processes may, too.
  prctl(PR_SET_PTRACER, getppid(), 0, 0, 0);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  // Capabilities of cowprof's file must not find a program that its user may not see. The exec drops them anyway.
  if (GainedRightsByExec()) static_cast<void>(SetEffective(0));
  execvpe(words[0], words, variables);
  const int error = errno;
  static_cast<void>(!write(failure, &error, sizeof(error)));
  _exit(error == ENOENT ? 127 : 126);
}

bool IsOwn(const ProcFs& proc, pid_t pid) {
  struct stat folder;
  return stat(proc.PathOf(pid, "").c_str(), &folder) == 0 && folder.st_uid == geteuid();
}

// The missing capabilities and, in a refusal, what to type; for a process of another user or one that changed its user.
// See docs/privileges.md.
std::string WhatIsMissing(const ProcFs& proc, pid_t pid, bool refusal) {
  const CapabilitySet held = EffectiveCapabilities();
  const bool may_open = (held & SetOf({CAP_DAC_READ_SEARCH})) != 0 ||
                        (geteuid() == 0 && (IsOwn(proc, pid) || (held & SetOf({CAP_DAC_OVERRIDE})) != 0));
  std::vector<std::string> missing;
  if ((held & SetOf({CAP_SYS_PTRACE})) == 0) missing.push_back("CAP_SYS_PTRACE");
  if (!may_open) missing.push_back("CAP_DAC_READ_SEARCH");
  const Caller caller = ReadCaller();
  if (missing.empty() && !caller.host_users)
    return "; cowprof's capabilities apply to its own user namespace only: run cowprof as root on the host";
  if (missing.empty()) {
    return absl::StrCat("; the capabilities are there, so something else forbids it, such as AppArmor or SELinux",
                        caller.container == Container::kNone ? "" : ": run cowprof on the host");
  }
  return absl::StrCat("; ", absl::StrJoin(missing, ", "),
                      " missing: ", IsOwn(proc, pid) ? "" : "run cowprof as the user of that process, or ",
                      refusal ? RightsRemedy(caller, missing)
                              : "run it with sudo, or with that capability (in a container: --cap-add)");
}

// What helps against Yama (yama_ptrace_access_check()), or what else is missing.
std::string MemoryRemedy(const ProcFs& proc, pid_t pid) {
  const std::string file = ReadSmallFile(proc.root() + "/sys/kernel/yama/ptrace_scope").value_or("0");
  const absl::string_view scope = absl::StripAsciiWhitespace(file);
  const std::string is_set = absl::StrCat(" (kernel.yama.ptrace_scope is ", scope, "): ");
  if (scope == "3")
    return absl::StrCat(is_set, "no process may read another's memory until the host is rebooted with a lower one");
  if (scope == "0" || (EffectiveCapabilities() & SetOf({CAP_SYS_PTRACE})) != 0)
    return WhatIsMissing(proc, pid, /*refusal=*/false);
  return absl::StrCat(is_set, scope == "1" ? "start it with `cowprof -- COMMAND`, or " : "",
                      RightsRemedy(ReadCaller(), {"CAP_SYS_PTRACE"}));
}

// kill(2) finds processes that /proc hides. Of those that /proc shows, everyone may open stat.
absl::Status WhyNotShown(pid_t pid) {
  if (kill(pid, 0) != 0 && errno != EPERM) {
    return absl::NotFoundError(
        absl::StrCat("there is no process ", pid, "; find the trainer's pid with: pgrep -af python"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat("not permitted: /proc hides process ", pid, " (it is mounted with hidepid); run cowprof ",
                   geteuid() != 0 ? "as the user that the process runs as, or " : "with CAP_SYS_PTRACE: ",
                   RightsRemedy(ReadCaller(), {"CAP_SYS_PTRACE"})));
}

}  // namespace

absl::Status CheckTarget(const ProcFs& proc, pid_t pid) {
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
  if (absl::IsNotFound(stat.status()) || absl::IsPermissionDenied(stat.status())) return WhyNotShown(pid);
  if (!stat.ok()) return stat.status();
  if (stat->state == 'Z' || stat->state == 'X')
    return absl::NotFoundError(absl::StrCat("process ", pid, " has already ended (it is a zombie)"));
  // /proc lists processes only, and finds threads by their numbers as well.
  const pid_t process = ParseStatus(proc.ReadFile(pid, "status").value_or("")).process;
  if (process != 0 && process != pid)
    return absl::NotFoundError(absl::StrCat(pid, " is a thread of process ", process, ": give ", process, " instead"));
  if (stat->is_kernel_thread()) {
    return absl::FailedPreconditionError(
        absl::StrCat("process ", pid, " is a kernel thread: it has no memory to copy; give the pid of a program"));
  }
  // pagemap requires the same as everything that follows: PTRACE_MODE_READ and ownership of the file.
  Fd pagemap(open(proc.PathOf(pid, "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  if (pagemap.ok()) return absl::OkStatus();
  const int error = errno;
  if (error == ENOENT && access((proc.root() + "/self/pagemap").c_str(), F_OK) != 0) {
    return absl::UnimplementedError(
        "this kernel has no page maps (/proc/PID/pagemap), as gVisor's: cowprof can't work here");
  }
  if (error == ENOENT || error == ESRCH) return absl::NotFoundError(absl::StrCat("process ", pid, " has just ended"));
  return absl::PermissionDeniedError(
      absl::StrCat("can't inspect process ", pid, ": ", strerror(error), WhatIsMissing(proc, pid, /*refusal=*/true)));
}

absl::Status CheckTarget(const ProcFs& proc, pid_t pid, uint64_t start_ticks) {
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
  if (stat.ok() && stat->start_ticks == start_ticks) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("process ", pid, " has ended, and its pid may be another's by now"));
}

int FailOnTarget(const absl::Status& status) {
  return Fail(absl::IsUnimplemented(status) ? kHostCannot : kNoProcess, status.message());
}

// Since Linux 6.15 CAP_PERFMON suffices for the page map, but not for memory. With Yama, being the same user does not
// suffice for memory either.
std::string NoteOnTarget(const ProcFs& proc, pid_t pid) {
  const Fd memory(open(proc.PathOf(pid, "mem").c_str(), O_RDONLY | O_CLOEXEC));
  if (memory.ok() || errno == ENOENT || errno == ESRCH) return "";
  const int error = errno;
  return absl::StrCat("can't read the memory of process ", pid, ": ", strerror(error), MemoryRemedy(proc, pid),
                      "; copies are counted, but without causes, types and lines");
}

std::string NoteOnPages(const ProcFs& proc, pid_t pid) {
  const Fd pagemap(open(proc.PathOf(pid, "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  if (pagemap.ok() || (errno != EACCES && errno != EPERM)) return "";
  return absl::StrCat("can't examine process ", pid,
                      ", nor what it forks: it became another user, or forbids it (PR_SET_DUMPABLE); cowprof needs "
                      "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH for that (in a container: --cap-add), or to run as that "
                      "user");
}

absl::Status CheckProgram(const std::string& name) {
  const char* const path = getenv("PATH");
  const bool is_path = absl::StrContains(name, '/');
  if (!is_path && path == nullptr) return absl::OkStatus();  // execvp() has a default
  int error = ENOENT;
  for (const absl::string_view folder : absl::StrSplit(is_path ? "" : path, ':')) {
    const std::string file = is_path ? name : absl::StrCat(folder.empty() ? "." : folder, "/", name);
    // Without AT_EACCESS the capabilities of cowprof's file do not count.
    if (faccessat(AT_FDCWD, file.c_str(), X_OK, GainedRightsByExec() ? 0 : AT_EACCESS) == 0) return absl::OkStatus();
    if (errno == EACCES)
      error = EACCES;
    else if (is_path && errno != ENOENT)
      return absl::OkStatus();
  }
  return absl::ErrnoToStatus(error, absl::StrCat("start ", name));
}

std::vector<char*> RemovedVariables() {
  std::vector<char*> removed;
  // /proc/self/environ may only be read by root, of a process that gained rights.
  const absl::StatusOr<std::string> text = ReadSmallFile("/proc/self/stat");
  const absl::StatusOr<ProcStat> stat = text.ok() ? ParseStat(*text) : text.status();
  if (!stat.ok()) return removed;
  char* const end = reinterpret_cast<char*>(stat->environment_end);
  for (char* at = reinterpret_cast<char*>(stat->environment_start); at < end; at += strlen(at) + 1) {
    const std::string name(at, strcspn(at, "="));
    if (!name.empty() && getenv(name.c_str()) == nullptr) removed.push_back(at);
  }
  return removed;
}

absl::StatusOr<HeldProgram> HeldProgram::Start(const std::vector<std::string>& words,
                                               const sigset_t& inherited_signals) {
  int go[2], failure[2];
  if (pipe2(go, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "make a pipe");
  Fd go_read(go[0]), go_write(go[1]);
  if (pipe2(failure, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "make a pipe");
  Fd failure_read(failure[0]), failure_write(failure[1]);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  if (GainedRightsByExec()) variables = RemovedVariables();
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  variables.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, absl::StrCat("fork to start ", words[0]));
  if (pid == 0) {
    close(go_write.fd());  // otherwise the program would keep its own pipe open
    RunHeld(go_read.fd(), failure_write.fd(), arguments.data(), variables.data(), inherited_signals);
  }
  return HeldProgram(pid, std::move(go_write), std::move(failure_read), words[0]);
}

HeldProgram::~HeldProgram() {
  if (!go_.ok()) return;
  go_.Close();
  waitpid(pid_, nullptr, 0);
}

absl::Status HeldProgram::Release() {
  static_cast<void>(!write(go_.fd(), "g", 1));
  go_.Close();
  int error = 0;
  ssize_t got;
  while ((got = read(failure_.fd(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (got != sizeof(error)) return absl::OkStatus();  // closed by the exec
  waitpid(pid_, nullptr, 0);
  return absl::ErrnoToStatus(error, absl::StrCat("start ", name_));
}

int HeldProgram::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace cowprof
