// Where pages were copied, and where new ones were touched first: names and numbers the sites and frames in the rows of
// the source, and keeps the counts that are still to be reported.
#ifndef COWPROF_ATTRIBUTION_COPY_SITES_H_
#define COWPROF_ATTRIBUTION_COPY_SITES_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "attribution/programs.h"
#include "attribution/row_causes.h"
#include "model/facts/sample.h"
#include "source/fault_source.h"

namespace cowprof {

class CopySites {
 public:
  CopySites(Programs* programs, RowCauses* causes, FaultSource* faults)
      : programs_(programs), causes_(causes), faults_(faults) {}

  // Names what the rows refer to: all rows that there are. Call while the processes are still there.
  void Read(const std::vector<CopySiteRow>& rows);
  // Reports what is new or changed since it was last reported: of these processes only (by index), or of all (null).
  void Tell(const absl::flat_hash_set<int>* only, Sample* sample);
  // Drops what was kept of processes and programs that are gone. What was not reported yet still will be.
  void Forget(const Programs::Forgotten& forgotten);

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint64_t, uint64_t, uint64_t>;  // image, shape, ip, type, stack

  Key KeyOf(const CopySiteRow& row, const Member& member) const;
  int NumberOf(const CopySiteRow& row, const Member& member);
  int GrowthNumberOf(const CopySiteRow& row, const Member& member);
  std::vector<int> WithoutImports(const std::vector<int>& frames) const;
  const std::vector<int>& StackOf(uint64_t stack, Program& program);
  int FrameNumber(const Frame& frame);
  void KeepOnly(const std::vector<CopySiteRow>& rows);

  Programs* programs_;
  RowCauses* causes_;
  FaultSource* faults_;
  absl::flat_hash_map<Key, int> known_;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, std::vector<int>> stacks_;  // by image; numbers of frames
  absl::flat_hash_map<std::string, int> by_text_;
  absl::flat_hash_map<std::tuple<std::string, std::string, int>, int> frames_;  // file, function, line
  std::vector<Frame> new_frames_;                                               // not reported yet, like the next two
  std::vector<CopySite> new_copy_sites_;
  std::vector<GrowthSite> new_growth_sites_;
  std::vector<bool> imports_;                                       // by frame number: it is one of the import system
  std::map<std::vector<int>, int> growth_sites_;                    // by frames
  std::map<std::pair<int, int>, GrowthCount> changed_growth_;       // by process and growth site
  absl::flat_hash_map<std::pair<int, int>, uint64_t> read_growth_;  // the same, as last read
  std::map<std::pair<int, int>, CopySiteCount> changed_;            // by process and copy site
  absl::flat_hash_map<std::pair<int, int>, uint64_t> read_copies_;  // the same, as last read
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_COPY_SITES_H_
