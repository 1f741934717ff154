// Which region every page lies in: the regions of each address space, numbered for the recording, and what sweeps found
// in them. An address space is named by the process that owns it; processes forked from it have nearly the same
// mappings.
#ifndef COWPROF_ATTRIBUTION_ADDRESS_SPACES_H_
#define COWPROF_ATTRIBUTION_ADDRESS_SPACES_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "attribution/regions.h"
#include "model/facts/sample.h"
#include "python/page_diff.h"
#include "source/pagemap.h"
#include "source/procfs.h"

namespace cowprof {

class AddressSpaces {
 public:
  // `most_regions`: of all address spaces together. What lies in others is not counted by region.
  AddressSpaces(ProcFs proc, uint64_t page_bytes, int most_regions = kMostNumbers)
      : proc_(std::move(proc)), page_bytes_(page_bytes), most_regions_(most_regions) {}

  // The ranges for a sweep of a process that has the address space of `owner`. Its mappings, read through `pid`, are
  // read again when they are older than 10 s. `pool_bytes`: of pymalloc there, 0 if there is none.
  std::shared_ptr<const std::vector<AddressRange>> RangesOf(int owner, pid_t pid, uint64_t pool_bytes,
                                                            absl::Duration t);
  // `owner` has forked, and may have loaded its data since its mappings were read: the next call of RangesOf reads them
  // again, unless it forks all the time. That its size is the same says nothing: it may have loaded the next shard.
  void Forked(int owner, absl::Duration t);
  // Looks for heads of objects in the larger regions of `owner` that are not pymalloc's, if they are new or have grown.
  // `pid`: a process that inherited them.
  void LookForHeads(int owner, pid_t pid, const HeadLayout& layout, const TypeLookup& types);
  // Adds what a sweep of the process `index`, which has the address space of `owner`, found.
  void Add(int owner, int index, const FinishedSweep& sweep);
  // New regions, those that grew or are back, and changed counts since the last call; once, a note that there are too
  // many regions.
  void Take(Sample* sample);
  // No process has the address space of `owner` any more, or `owner` has another one since.
  void ForgetSpace(int owner) { spaces_.erase(owner); }
  // The process `index` has ended, or has another address space.
  void ForgetProcess(int index) { counts_.erase(index); }

 private:
  struct Space {
    std::vector<Region> known;        // by the number that the sweep has
    std::vector<int> numbers;         // their numbers in the recording; of the first ones, if there are too many
    std::vector<uint64_t> told_ends;  // of these, the end that was told last
    std::map<uint64_t, size_t> told;  // start -> place in `known`: what a reader takes to be there
    std::shared_ptr<const std::vector<AddressRange>> ranges;
    absl::Duration looked;
    std::vector<uint64_t> looked_bytes;  // of each of `known`: its size when heads were last looked for
    bool has_forked = false;
  };
  ProcFs proc_;
  uint64_t page_bytes_;
  int most_regions_, next_number_ = 0;
  bool space_full_ = false;  // one has had more regions than a sweep can number
  bool told_full_ = false;
  absl::flat_hash_map<int, Space> spaces_;  // by owner
  std::vector<NumberedRegion> new_regions_;
  std::vector<GrownRegion> grown_regions_;
  std::vector<RegionCount> changed_;
  std::vector<RegionHeads> heads_;
  absl::flat_hash_map<int, absl::flat_hash_map<int, RegionCount>> counts_;  // by process and region, as last reported
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_ADDRESS_SPACES_H_
