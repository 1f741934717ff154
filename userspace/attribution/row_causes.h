// Why pages were copied: finds the cause of each row of a pull, and sums them up by process.
#ifndef COWPROF_ATTRIBUTION_ROW_CAUSES_H_
#define COWPROF_ATTRIBUTION_ROW_CAUSES_H_

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "attribution/programs.h"
#include "attribution/site_trust.h"
#include "model/facts/sample.h"
#include "source/fault_source.h"

namespace cowprof {

class RowCauses {
 public:
  RowCauses(const Programs* programs, FaultSource* faults) : programs_(programs), faults_(faults) {}

  // Fills the causes of the sample's processes, and lets the source trust instructions that always write the same.
  // `processes`: those of the pull.
  void Judge(const std::vector<FollowedProcess>& processes, const Pull& pull, Sample* sample);
  // The cause of a copy by one instruction onto one shape, in a process that ran the program then.
  Cause Of(Program& program, const Member& member, uint32_t image, cowprof_shape shape, uint64_t ip);
  // The cause that most copies onto the shape had in the process, by the last pull.
  Cause OfShape(uint32_t serial, cowprof_shape shape) const;
  // No process runs these programs any more.
  void Forget(const absl::flat_hash_set<uint32_t>& images);

 private:
  const Programs* programs_;
  FaultSource* faults_;
  SiteTrust trust_;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint64_t>, Cause> judged_;  // image, shape, ip
  absl::flat_hash_map<std::pair<uint32_t, int>, CauseCounts> shapes_;            // by serial and shape
  CauseEvidence evidence_, ended_evidence_;  // as last reported; `looked` and `told` of processes that are gone
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_ROW_CAUSES_H_
