// Formats what an alert says and advises, one sentence each. Pure.
#ifndef COWPROF_MODEL_JUDGE_ALERT_FORMAT_H_
#define COWPROF_MODEL_JUDGE_ALERT_FORMAT_H_

#include <optional>
#include <string>

#include "model/facts/run_model.h"
#include "model/judge/alert.h"

namespace cowprof {

// "cgroup /job full in about 12.0 s: 312.0 MiB of 500.0 MiB used, +18.0 MiB/s; worker 4242 grows most: new memory".
// `most_copies`: bytes that can still be copied, if nothing tells how many of them will be.
std::string AlertText(const Alert& alert, double per_second, std::optional<double> most_copies, const RunModel& model);
// The one thing to do.
std::string AlertAdvice(const Alert& alert, const RunModel& model);
// "ALERT cgroup /job full in .... Do: ADVICE" or "alert ended: ...", for a terminal and the report.
std::string AlertLine(const Alert& alert);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_ALERT_FORMAT_H_
