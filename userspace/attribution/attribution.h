// What copied pages and why: turns what a pull counted into causes, types and lines, and adds these to the sample when
// due. Reads the memory of processes, and never stops them. Composes the parts: programs, causes of rows, copy sites,
// copied pages and flags of interpreters.
#ifndef COWPROF_ATTRIBUTION_ATTRIBUTION_H_
#define COWPROF_ATTRIBUTION_ATTRIBUTION_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "attribution/copied_page_runs.h"
#include "attribution/copy_sites.h"
#include "attribution/identities.h"
#include "attribution/interpreter_flags.h"
#include "attribution/programs.h"
#include "attribution/row_causes.h"
#include "attribution/tell_schedule.h"
#include "model/facts/sample.h"
#include "source/fault_source.h"

namespace cowprof {

struct AttributionOptions {
  uint64_t page_bytes = 4096;
  bool causes = true;  // read Python's memory to say why pages were copied
};

class Attribution {
 public:
  // `faults` must outlive this.
  Attribution(const ProcFs& proc, const AttributionOptions& options, FaultSource* faults);
  Attribution(const Attribution&) = delete;  // its parts point at each other

  // Processes that come, call exec and end are noted here: new ones and execs before Attribute() of their tick, ends
  // after it.
  Programs& programs() { return programs_; }

  // Fills causes, flags of interpreters, copy sites and pages of the sample, and adds events. `processes`: of its look.
  // `last`: report everything.
  void Attribute(const std::vector<FollowedProcess>& processes, const Pull& pull, bool last, Sample* sample);
  // When to tick at the latest, since the start of the recording: a program that has just started should be known
  // before it copies.
  absl::Duration next_extra_tick() const;
  // Between two ticks.
  void LookBetweenTicks(absl::Duration now) { identities_.LookBetweenTicks(now); }
  absl::Duration next_look() const { return identities_.next_look(); }

 private:
  void ReadCopySites();
  void TellPages(Sample* sample);
  void StopLogWhenFull(Sample* sample);

  AttributionOptions options_;
  FaultSource* faults_;
  Programs programs_;
  RowCauses causes_;
  CopySites copy_sites_;
  InterpreterFlags flags_;
  Identities identities_;
  CopiedPageRuns page_runs_;
  bool logging_pages_ = true;
  TellSchedule schedule_;
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_ATTRIBUTION_H_
