// The sentences that a reader sees first. Pure; part of Judge() (findings.h).
#ifndef COWPROF_MODEL_JUDGE_HEADLINE_H_
#define COWPROF_MODEL_JUDGE_HEADLINE_H_

#include <string>

#include "model/facts/run_model.h"
#include "model/judge/blame.h"

namespace cowprof {

struct Findings;

// See Findings::largest_group.
std::string LargestGroup(const RunModel& model, const Blame& workers);
// See Findings::verdict; `findings` already has everything else of Detail::kScreen.
std::string Verdict(const RunModel& model, const Findings& findings);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_HEADLINE_H_
