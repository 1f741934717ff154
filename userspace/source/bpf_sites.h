// The probes' tables of what copied and what first touched memory, and of the stacks that these rows name.
#ifndef COWPROF_SOURCE_BPF_SITES_H_
#define COWPROF_SOURCE_BPF_SITES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cowprof.h"
#include "source/bpf_handles.h"
#include "source/fault_source.h"

namespace cowprof {

class BpfSites {
 public:
  // `skeleton` is loaded, and outlives this.
  explicit BpfSites(cowprof_probes& skeleton);
  // This process has ended: the next Pull() returns its rows for the last time, and deletes them.
  void AddEnded(uint32_t serial) { ended_.insert(serial); }
  // The rows of both tables; those of the second have the shape COWPROF_SHAPE_NEW.
  absl::StatusOr<std::vector<CopySiteRow>> Pull();
  // Innermost frame first; empty: not there (any more).
  std::vector<cowprof_frame> ReadStack(uint64_t stack);
  // Deletes these stacks, now or at a later call: they were read, and come back when they are sampled again. A program
  // may have more of them than the tables have room for.
  void ForgetStacks(const absl::flat_hash_set<uint64_t>& stacks);

 private:
  struct StackTable {
    int map = -1;
    size_t room = 0;                     // of the table
    size_t read = 0;                     // since it was last cleared
    absl::Duration next = {};            // when to clear it at the latest, monotonic
    absl::flat_hash_set<uint64_t> told;  // to delete then, also those of processes that have ended since
  };

  cowprof_probes& skeleton_;
  absl::flat_hash_set<uint32_t> ended_;     // serials of processes whose rows are still in the tables
  StackTable copy_stacks_, growth_stacks_;  // keys are hashes of the stacks
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_SITES_H_
