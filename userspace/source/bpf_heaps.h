// Deletes the probes' notes on free memory at forks once they are not used, to make room for those of later forks.
#ifndef COWPROF_SOURCE_BPF_HEAPS_H_
#define COWPROF_SOURCE_BPF_HEAPS_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "cowprof.h"
#include "source/bpf_handles.h"

namespace cowprof {

class BpfHeaps {
 public:
  // One look at a process. `ended`: the last one.
  void Look(const cowprof_process_row& row, bool ended);
  // Deletes the notes of useless() processes.
  absl::Status MakeRoom(cowprof_probes& skeleton);
  // Processes whose notes MakeRoom() is to delete.
  const absl::flat_hash_set<uint32_t>& useless() const { return useless_; }

 private:
  absl::flat_hash_set<uint32_t> useless_;
  absl::flat_hash_set<uint32_t> deleted_;  // of processes that still live
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_HEAPS_H_
