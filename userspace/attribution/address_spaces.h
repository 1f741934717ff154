// Which region every page lies in: the regions of each address space, numbered for the recording, and what the sweeps
// found in them. Called by the collector around every sweep. An address space is known by the process whose mappings
// were read: what is forked from it has the same, with more or less.
#ifndef COWPROF_ADDRESS_SPACES_H_
#define COWPROF_ADDRESS_SPACES_H_

#include <sys/types.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "model/sample.h"
#include "python/page_diff.h"
#include "regions.h"
#include "source/pagemap.h"
#include "source/procfs.h"

namespace cowprof {

class AddressSpaces {
 public:
  explicit AddressSpaces(ProcFs proc) : proc_(std::move(proc)) {}

  // The ranges for a sweep of a process of the address space that `owner` has. Its mappings, read through `pid`, are
  // looked at anew when they are older than 10 s. `pool_bytes`: of pymalloc there, 0 if there is none.
  std::shared_ptr<const std::vector<AddressRange>> RangesOf(int owner, pid_t pid, uint64_t pool_bytes,
                                                            absl::Duration t);
  // `owner` has forked, and may have loaded its data since its mappings were read: they are looked at anew by the next
  // call of RangesOf, unless it forks all the time.
  void Forked(int owner, absl::Duration t);
  // Looks for the heads of objects in the larger regions of other memory than pymalloc's that `owner` has, as far as
  // they are new or have grown. `pid`: a process that inherited them.
  void LookForHeads(int owner, pid_t pid, const HeadLayout& layout, const TypeLookup& types);
  // What a sweep of `index` found.
  void Add(int owner, const FinishedSweep& sweep);
  // New regions and changed counts since the last call.
  void Take(Sample* sample);
  void Forget(int index) { counts_.erase(index); }

 private:
  struct Space {
    std::vector<Region> known;  // by the number that the sweep has
    std::vector<int> numbers;   // the same in the recording
    std::shared_ptr<const std::vector<AddressRange>> ranges;
    absl::Duration looked;
    std::vector<uint64_t> looked_bytes;  // of each of `known`: its size when heads were last looked for
    bool has_forked = false;
  };
  ProcFs proc_;
  absl::flat_hash_map<int, Space> spaces_;  // by owner
  int next_number_ = 0;
  std::vector<NumberedRegion> new_regions_;
  std::vector<RegionCount> changed_;
  std::vector<RegionHeads> heads_;
  absl::flat_hash_map<int, absl::flat_hash_map<int, RegionCount>> counts_;  // by process and region, as last told
};

}  // namespace cowprof

#endif  // COWPROF_ADDRESS_SPACES_H_
