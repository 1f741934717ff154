// The process to profile: whether it may be read, and how to start one that waits for the probes.
#ifndef COWPROF_RECORDER_TARGET_H_
#define COWPROF_RECORDER_TARGET_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "posix/fd.h"
#include "source/procfs.h"

namespace cowprof {

// OK if `pid` is a live user process that may be profiled. Otherwise the message is meant for the user. Unimplemented:
// this kernel lets no process be profiled.
absl::Status CheckTarget(const ProcFs& proc, pid_t pid);
// The same, and NotFound if another process has the pid since. Call once a descriptor refers to it.
absl::Status CheckTarget(const ProcFs& proc, pid_t pid, uint64_t start_ticks);
// Prints why CheckTarget() failed, and returns the exit status.
int FailOnTarget(const absl::Status& status);
// What can't be read of a process that passed CheckTarget(), with reason and remedy; "": nothing.
std::string NoteOnTarget(const ProcFs& proc, pid_t pid);
// The same of a process that was followed and has called exec, as gosu, su-exec and sudo do for another user. Makes no
// system call that GiveUpPrivileges() forbids.
std::string NoteOnPages(const ProcFs& proc, pid_t pid);

// NotFound or PermissionDenied if execvp(2) would find no program of that name, or none that may be executed. OK does
// not mean that it will succeed. With this, a wrong name is reported before anything is made for the recording.
absl::Status CheckProgram(const std::string& name);

// What this process was started with and no longer has in its environment, as "NAME=VALUE". If an exec gives rights, as
// by capabilities of cowprof's file, the C library removes LD_PRELOAD, LD_LIBRARY_PATH, TMPDIR and others before
// main().
std::vector<char*> RemovedVariables();

// A program that was forked and waits before its exec, so that probes can be attached first. Inherits streams,
// environment, working directory and signal dispositions. Has no capabilities of cowprof's file, and the environment
// that the caller gave cowprof.
class HeldProgram {
 public:
  // Forks. `inherited_signals`: the signal mask that the program starts with.
  static absl::StatusOr<HeldProgram> Start(const std::vector<std::string>& words, const sigset_t& inherited_signals);
  HeldProgram(HeldProgram&&) = default;
  // A program that was not released ends without having run.
  ~HeldProgram();

  pid_t pid() const { return pid_; }
  // Lets it run. The error says why the exec failed; errno's ENOENT maps to NotFound.
  absl::Status Release();
  // Waits for its end and returns its wait(2) status.
  int Wait();

 private:
  HeldProgram(pid_t pid, Fd go, Fd failure, std::string name)
      : pid_(pid), go_(std::move(go)), failure_(std::move(failure)), name_(std::move(name)) {}

  pid_t pid_ = 0;
  Fd go_;       // a byte written here lets it run
  Fd failure_;  // errno of a failed exec; closed by a successful one
  std::string name_;
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_TARGET_H_
