// A thread that can never go on, as it was found from outside: by the two rules of model/judge/hangs.h, at the moment
// at which its process was read. Nothing of it can be read again later, so a recording keeps what was said.
#ifndef COWPROF_MODEL_FACTS_HANG_H_
#define COWPROF_MODEL_FACTS_HANG_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/facts/enum_names.h"
#include "model/facts/waits.h"

namespace cowprof {

enum class HangProof { kNever, kOwnerGone };
template <>
inline constexpr auto kNamesOf<HangProof> = NamesFor<HangProof>("never", "owner-gone");

enum class HangKind { kUnknown, kLock, kRLock, kCMutex, kOpenMp, kImportLock, kFileBuffer, kDeadlock };
template <>
inline constexpr auto kNamesOf<HangKind> = NamesFor<HangKind>("unknown", "lock", "rlock", "c-mutex", "openmp",
                                                              "import-lock", "file-buffer", "deadlock");

struct Hang {
  pid_t pid = 0, tid = 0, parent = 0;
  absl::Duration waited;  // until it was found; at most
  HangProof proof = HangProof::kNever;
  HangKind kind = HangKind::kUnknown;
  bool by_fork = false;      // what it waits for stayed in the parent, or must have
  std::string what;          // "a threading.Lock that nobody in this process has"; never empty
  std::vector<Frame> stack;  // innermost first
  std::string native;
  std::optional<Holder> holder;
  std::string fix;  // "": none is known
  std::vector<WaitForChildren> victims;
  bool operator==(const Hang&) const = default;
};

// The threads of one forked process that can never go on. Empty: those that were seen before went on after all.
struct HangsSeen {
  std::vector<Hang> hangs;
  bool operator==(const HangsSeen&) const = default;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_HANG_H_
