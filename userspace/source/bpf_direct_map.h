// Where the kernel has the map of physical memory that bpf/user_memory.h reads. For bpf_faults.cc only.
#ifndef COWPROF_SOURCE_BPF_DIRECT_MAP_H_
#define COWPROF_SOURCE_BPF_DIRECT_MAP_H_

#include "source/bpf_handles.h"

namespace cowprof {

// Whether the probes should read there, by what a copy takes. For a copy whose stack is taken that is 3,900
// instructions more than to read at the user's address, and some 50 us less where a hypervisor keeps page tables in
// software. A copy takes 2 to 4.4 us with page tables in hardware, 15 us with such a hypervisor
// (docs/design/fault-path.md).
constexpr double kCopyInSoftwareNs = 8000;
inline bool UseDirectMap(double copy_ns) { return copy_ns > kCopyInSoftwareNs; }

// A page of this process in a pipe: there the probes find its struct page, of which user space sees the frame. From
// that they know where all struct pages are, then find the one of their top page table, and check the result by a word
// of the page. Not found without CAP_SYS_ADMIN, under lockdown=confidentiality, or on another CPU than x86: the probes
// then read at the user's address.
class DirectMapHint {
 public:
  // Gives it to the probes, which look at it when they next list all tasks. Destroy it after that.
  explicit DirectMapHint(const cowprof_probes& skeleton);
  ~DirectMapHint();
  DirectMapHint(const DirectMapHint&) = delete;
  DirectMapHint& operator=(const DirectMapHint&) = delete;

 private:
  Fd pipe_[2];
  void* page_ = nullptr;
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_DIRECT_MAP_H_
