// Where the kernel has the map of physical memory that bpf/user_memory.h reads. For bpf_faults.cc only.
#ifndef COWPROF_SOURCE_BPF_DIRECT_MAP_H_
#define COWPROF_SOURCE_BPF_DIRECT_MAP_H_

#include "source/bpf_handles.h"

namespace cowprof {

// A page of this process in a pipe: there the probes find its struct page, of which user space sees the frame. From
// that they know where all struct pages are, then find the one of their top page table, and check the result by a word
// of the page. Not found without CAP_SYS_ADMIN, under lockdown=confidentiality, or on another CPU than x86: the probes
// then read at the user's address, which costs more.
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
