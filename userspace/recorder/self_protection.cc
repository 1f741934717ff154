// mlockall(2), RLIMIT_NOFILE, and a comparison of cgroups.
#include "recorder/self_protection.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "absl/strings/str_cat.h"
#include "model/format.h"

namespace cowprof {

void TuneHeap() {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);  // also fixes the threshold
  mallopt(M_TRIM_THRESHOLD, 2 << 20);
}

void LockMemory() {
  rlimit bound = {};
  getrlimit(RLIMIT_MEMLOCK, &bound);
  // Without CAP_IPC_LOCK the bound applies, and after mlockall() every mmap() beyond it would fail: do not lock then. A
  // temporary bound of 0 makes mlockall() fail in exactly that case.
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
    if (!limit.limit || !IsCgroup(limit.kind)) continue;
    for (const LimitSample& same : own) {
      if (same.key() != limit.key()) continue;
      return absl::StrCat("cowprof itself runs in ", FormatLimit(limit), ", whose limit of ", HumanBytes(limit.limit),
                          " also applies to the target: the OOM killer may end the recording with it; to be safe, "
                          "run cowprof outside that cgroup, for example on the host");
    }
  }
  return "";
}

}  // namespace cowprof
