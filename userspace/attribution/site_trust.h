// Which instructions of a program always write the same: then the probes need not read memory at each of their copies.
// Every verdict is checked for as long as the program runs.
#ifndef COWPROF_ATTRIBUTION_SITE_TRUST_H_
#define COWPROF_ATTRIBUTION_SITE_TRUST_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "model/facts/sample.h"
#include "python/instruction.h"
#include "source/fault_source.h"

namespace cowprof {

class SiteTrust {
 public:
  using Site = std::pair<uint32_t, uint64_t>;  // image, instruction
  // Copies by a site that were looked at, as of one tick.
  struct Looked {
    CauseCounts copies = {};
    uint64_t most = 0;  // of one shape
    cowprof_shape shape = COWPROF_SHAPE_UNREAD;
    Cause cause = Cause::kUnknown;
  };

  // Returns the instructions that became trusted, or no longer are.
  std::vector<SiteVerdict> Judge(const absl::flat_hash_map<Site, Looked>& looked,
                                 absl::FunctionRef<WriteKind(uint32_t image, uint64_t ip)> kind_of);
  // Adds how many copies by trusted instructions were looked at nevertheless, and how many of them had another cause.
  void AddTo(CauseEvidence* evidence) const;
  // No process runs these programs any more. What was found about them still counts.
  void Forget(const absl::flat_hash_set<uint32_t>& images);

 private:
  enum class Trust { kNone, kGiven, kLost };
  struct State {
    uint32_t causes = 0;  // set of Cause that its copies had
    Trust trust = Trust::kNone;
    Cause cause = Cause::kUnknown;  // that it is trusted with
    uint64_t looked_before = 0;     // copies that were looked at until then
    uint64_t audited = 0, contradicted = 0;
  };
  absl::flat_hash_map<Site, State> states_;
  uint64_t ended_audited_ = 0, ended_contradicted_ = 0;  // of programs that are gone
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_SITE_TRUST_H_
