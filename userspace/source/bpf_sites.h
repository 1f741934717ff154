// The probes' tables of what copied and what first touched memory, and of the stacks that these rows name.
#ifndef COWPROF_SOURCE_BPF_SITES_H_
#define COWPROF_SOURCE_BPF_SITES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "cowprof.h"
#include "source/bpf_handles.h"
#include "source/fault_source.h"

namespace cowprof {

class BpfSites {
 public:
  // `skeleton` is loaded, and outlives this.
  explicit BpfSites(cowprof_probes& skeleton) : skeleton_(skeleton) {}
  // This process has ended: the next Pull() returns its rows for the last time, and deletes them.
  void AddEnded(uint32_t serial) { ended_.insert(serial); }
  // The rows of both tables; those of the second have the shape COWPROF_SHAPE_NEW. Takes all stacks out of their
  // tables, which makes room whatever became of the rows; a stack that recurs comes back with its next sample.
  absl::StatusOr<std::vector<CopySiteRow>> Pull();
  // Of this pull or the one before. Innermost frame first; empty: not there (any more).
  std::vector<cowprof_frame> ReadStack(uint64_t stack) const;

 private:
  void TakeStacks();

  cowprof_probes& skeleton_;
  absl::flat_hash_set<uint32_t> ended_;  // serials of processes whose rows are still in the tables
  absl::flat_hash_map<uint64_t, std::vector<cowprof_frame>> stacks_, earlier_stacks_;  // by hash
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_SITES_H_
