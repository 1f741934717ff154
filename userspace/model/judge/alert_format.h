// Formats what an alert says and advises, one sentence each. Pure.
#ifndef COWPROF_MODEL_JUDGE_ALERT_FORMAT_H_
#define COWPROF_MODEL_JUDGE_ALERT_FORMAT_H_

#include <optional>
#include <string>
#include <vector>

#include "model/facts/run_model.h"
#include "model/judge/alert.h"

namespace cowprof {

struct Findings;

// "cgroup /job full in about 12.0 s: 312.0 MiB of 500.0 MiB used, +18.0 MiB/s; worker 4242 grows most: new memory".
// `most_copies`: bytes that can still be copied, if nothing tells how many of them will be.
std::string AlertText(const Alert& alert, double per_second, std::optional<double> most_copies, const RunModel& model);
// The one thing to do while nothing is found that fits.
std::string AlertAdvice(const Alert& alert, const RunModel& model);
// Gives each alert that is raised the first finding that fits its limit, what grows and whose it is: what is said of it
// first, its line, and its advice instead of AlertAdvice's. A hang gets only the finding's id and sentence. `findings`
// of Detail::kScreen at least.
void ExplainAlerts(const Findings& findings, const RunModel& model, std::vector<Alert>* alerts);
// "ALERT cgroup /job full in .... Do: ADVICE" or "alert ended: ...", for a terminal and the report.
std::string AlertLine(const Alert& alert);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_ALERT_FORMAT_H_
