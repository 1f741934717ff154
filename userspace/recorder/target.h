// The process that is profiled: whether it may be looked at, and how one is started held back. Called by the commands.
#ifndef COWPROF_TARGET_H_
#define COWPROF_TARGET_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "posix/fd.h"
#include "source/procfs.h"

namespace cowprof {

// OK if `pid` is a living user process whose memory may be read. The message is the sentence for the user.
absl::Status CheckTarget(const ProcFs& proc, pid_t pid);
// What of it can't be read although it may be looked at, with the reason and the remedy; "": nothing.
std::string NoteOnTarget(const ProcFs& proc, pid_t pid);

// A program that was forked and waits before its exec, so that probes can be attached first. Streams, environment,
// working directory and signal dispositions are the caller's.
class HeldProgram {
 public:
  // Forks. `inherited_signals` is the mask that the program shall start with.
  static absl::StatusOr<HeldProgram> Start(const std::vector<std::string>& words, const sigset_t& inherited_signals);
  HeldProgram(HeldProgram&&) = default;
  // A program that was never released ends without having run.
  ~HeldProgram();

  pid_t pid() const { return pid_; }
  // Lets it run. The error says why the exec failed; errno's ENOENT maps to NotFound.
  absl::Status Release();
  // After its end: its wait(2) status.
  int Wait();

 private:
  HeldProgram(pid_t pid, Fd go, Fd failure, std::string name)
      : pid_(pid), go_(std::move(go)), failure_(std::move(failure)), name_(std::move(name)) {}

  pid_t pid_ = 0;
  Fd go_;       // a byte lets it run
  Fd failure_;  // errno of a failed exec; closed by a successful one
  std::string name_;
};

}  // namespace cowprof

#endif  // COWPROF_TARGET_H_
