// Who can never go on, by two looks at a process, and why. Pure.
//
// Rule 1, "never": every thread of the process waits without timeout on a word that only its own threads could wake,
// and between the looks none used CPU time or was switched. Rule 2, "owner gone": what a thread waits for belongs to a
// thread that does not exist in its process: it stayed in the parent at the fork.
#ifndef COWPROF_MODEL_JUDGE_HANGS_H_
#define COWPROF_MODEL_JUDGE_HANGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "model/facts/waits.h"

namespace cowprof {

enum class HangProof { kNever, kOwnerGone };
enum class HangKind { kUnknown, kLock, kRLock, kCMutex, kOpenMp, kImportLock, kFileBuffer, kDeadlock };
const char* NameOf(HangProof proof);
const char* NameOf(HangKind kind);

struct Hang {
  ProcessId process;
  pid_t parent = 0, tid = 0;
  uint64_t thread_start_ns = 0;  // it can't wait since before
  HangProof proof = HangProof::kNever;
  HangKind kind = HangKind::kUnknown;
  bool by_fork = false;  // what it waits for stayed in the parent, or must have
  std::string what;      // "a threading.Lock that nobody in this process has"; never empty
  std::vector<Frame> stack;
  std::string native;
  std::optional<Holder> holder;
  std::string fix;  // "": none is known
  std::vector<WaitForChildren> victims;
};

// The threads of one process that wait for what nobody will release, in the order of their tids. `before`: an earlier
// look, at least 20 ms before; of the threads only `wait` counts. Empty: nothing is proven.
std::vector<Hang> JudgeWaits(absl::Span<const ThreadWait> before, const WaitingProcess& process);

// Whether rule 1 may still apply: worth a closer look. Rule 2 may, too, where only `any` is true.
struct StillWaits {
  bool all = false, any = false;
};
StillWaits CompareLooks(absl::Span<const ThreadWait> before, absl::Span<const ThreadWait> now);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_HANGS_H_
