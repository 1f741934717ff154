// What is known about the pages of living processes: the regions they lie in, what sweeps found there, and what their
// bytes say. Answers a source that counts by sweeps (as its PageReader), and adds every finished sweep to the sample.
#ifndef COWPROF_RECORDER_PROCESS_PAGES_H_
#define COWPROF_RECORDER_PROCESS_PAGES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "attribution/address_spaces.h"
#include "attribution/attribution.h"
#include "attribution/cause_verifier.h"
#include "attribution/page_evidence.h"
#include "attribution/programs.h"
#include "model/facts/sample.h"
#include "recorder/processes.h"
#include "source/fault_source.h"

namespace cowprof {

class ProcessPages : public PageReader {
 public:
  // `options.causes`: whether bytes may be read to explain copies. `processes` and `programs` must outlive this.
  ProcessPages(const ProcFs& proc, const AttributionOptions& options, const Processes* processes,
               const Programs* programs);

  std::shared_ptr<const std::vector<AddressRange>> RangesOf(uint32_t serial, absl::Duration t) override;
  std::optional<std::vector<ExplainedPage>> Explain(uint32_t serial, const std::vector<uint64_t>& copied,
                                                    absl::Duration t) override;

  // Fills the sweeps of the sample's processes, and compares the pages that were sampled for it.
  void AddSweeps(const std::vector<FinishedSweep>& sweeps, Sample* sample);
  // Looks at what processes inherited that are new in the sample.
  void LookAtInherited(const Sample& sample);
  // Moves new regions, changed counts and heads since the last call to the sample.
  void TakeRegions(Sample* sample) { spaces_.Take(sample); }
  // Call while `processes` still has the process as it was: it called exec, or ended.
  void Exec(const LivingProcess& process);
  void End(const LivingProcess& process);

 private:
  void Forget(const LivingProcess& process);
  std::optional<VerifyFigures> Verify(const LivingProcess& worker, const FinishedSweep& sweep);

  ProcFs proc_;
  bool causes_;
  const Processes* processes_;
  const Programs* programs_;
  AddressSpaces spaces_;
  PageEvidence evidence_;
  CauseVerifier verifier_{/*seed=*/1};
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_PROCESS_PAGES_H_
