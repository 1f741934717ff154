// What each thread of a process is doing, by /proc/PID/task: its system call with arguments, CPU time and context
// switches. Owns the text of `syscall` and the meaning of futex(2)'s arguments. Judges nothing.
#ifndef COWPROF_SOURCE_WAIT_STATE_H_
#define COWPROF_SOURCE_WAIT_STATE_H_

#include <dirent.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "model/facts/waits.h"
#include "source/procfs.h"

namespace cowprof {

// /proc/PID/task/TID/syscall: "202 0x7f.. 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd.. 0x7f.."; "-1 SP PC" where a thread
// sleeps outside of a system call (a page fault); "running". Needs CONFIG_HAVE_ARCH_TRACEHOOK and the right to ptrace.
struct SyscallState {
  int64_t number = -1;
  uint64_t arguments[6] = {};
  uint64_t stack_pointer = 0, instruction = 0;
};
std::optional<SyscallState> ParseSyscall(absl::string_view text);  // nullopt: running, or not such a text

// A wait in futex(2) without timeout.
struct FutexWait {
  uint64_t address = 0;
  bool is_private = false;  // FUTEX_PRIVATE_FLAG
};
// nullopt: another system call, another operation, or a wait that ends by itself.
std::optional<FutexWait> EndlessFutexWait(const SyscallState& state);

// Figures of /proc/PID/task/TID/status; `caught`: SigCgt, bit 0 is signal 1.
struct TaskStatus {
  uint64_t switches = 0, caught = 0;
  pid_t tid_inside = 0;  // the last of NSpid; 0 before Linux 4.1
};
TaskStatus ParseTaskStatus(absl::string_view text);

// Whether a handler of one of the signals of `caught` may release what a thread waits for. Not those of SIGINT, which
// Python always catches, and of faults and aborts, which report and end the process. That of SIGCHLD, which torch sets,
// runs only in a process with children.
bool MayBeTold(uint64_t caught, bool has_children);

// One look at all threads, by tid; at most 4,096 (ResourceExhausted). NotFound: the process is gone. PermissionDenied.
// Unimplemented: no thread's system call is shown.
struct ThreadWaits {
  std::vector<ThreadWait> threads;
  bool may_be_told = false;
};
absl::StatusOr<ThreadWaits> ReadThreadWaits(const ProcFs& proc, pid_t pid);

// The cheapest look that shows whether a thread has moved: one small file a thread, and a second one of those that wait
// without timeout.
struct ThreadGlance {
  pid_t tid = 0;
  uint64_t futex = 0;       // it waits in futex(2) without timeout; 0: it doesn't
  bool is_private = false;  // by the call's flag; without it, the word may still be in private memory
  uint64_t stack_pointer = 0;
  std::string ran;  // changes whenever the thread runs; "": it does not wait so
  bool operator==(const ThreadGlance&) const = default;
};
// By tid; at most 4,096 threads. Errors as above.
absl::StatusOr<std::vector<ThreadGlance>> GlanceAtThreads(const ProcFs& proc, pid_t pid);

// Whether whoever takes the mmap_lock of a process, as a reader of its maps does, may wait for ever: a thread that has
// it and waits for a file system that does not answer is in uninterruptible sleep (state D), and so is one that waits
// for the lock. Many are so for a moment: only one that has not run between two looks counts.
class LockCheck {
 public:
  enum class Result { kUnfinished, kFree, kAgain, kHangs, kKernel };
  // Looks at one more thread of `pid`. kUnfinished: call again with the same `pid`. kAgain: a second time for this one,
  // best after all others, since that waits until 20 ms have passed. kKernel: a thread of the kernel, without memory.
  Result Step(const ProcFs& proc, pid_t pid);

 private:
  using Asleep = std::set<std::pair<pid_t, uint64_t>>;  // thread, how often it had run
  void LookAt(const ProcFs& proc, pid_t pid, const std::string& tid);
  Result Judge(pid_t pid);

  std::unique_ptr<DIR, int (*)(DIR*)> threads_{nullptr, closedir};  // of the current process
  Asleep asleep_;
  std::map<pid_t, Asleep> before_;  // at the first look
  absl::Duration last_first_look_;
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_WAIT_STATE_H_
