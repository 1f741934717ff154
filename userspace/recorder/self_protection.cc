// See survival.h.
#include "survival.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "absl/strings/str_cat.h"
#include "model/words.h"

namespace cowprof {

void LockMemory() {
  rlimit bound = {};
  getrlimit(RLIMIT_MEMLOCK, &bound);
  // Where the bound counts (without CAP_IPC_LOCK), every later mmap beyond it would fail: then rather not. With a bound
  // of 0 mlockall tells which it is.
  const rlimit nothing = {0, bound.rlim_max};
  setrlimit(RLIMIT_MEMLOCK, &nothing);
  mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
  setrlimit(RLIMIT_MEMLOCK, &bound);
}

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string SharedFateNote(const std::vector<LimitSample>& target, const std::vector<LimitSample>& own) {
  for (const LimitSample& limit : target) {
    if (!limit.limit || (limit.kind != LimitKind::kCgroupV1 && limit.kind != LimitKind::kCgroupV2)) continue;
    for (const LimitSample& same : own) {
      if (same.kind != limit.kind || same.name != limit.name) continue;
      return absl::StrCat("this recording itself runs in ", LimitWords(limit), ", whose limit of ",
                          HumanBytes(limit.limit),
                          " the target's memory meets: the OOM killer may end the recording with it; to be safe, "
                          "run cowprof outside of that cgroup, as on the host");
    }
  }
  return "";
}

}  // namespace cowprof
