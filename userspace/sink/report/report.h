// The verdict on a recording: in words, and as cowprof.report/1. Pure: formats a model and the findings. This directory
// owns the report's keys, except those shared with the timeline (timeline/json_*.h); schema/report.schema.json fixes
// the format.
#ifndef COWPROF_SINK_REPORT_REPORT_H_
#define COWPROF_SINK_REPORT_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/judge/findings.h"

namespace cowprof {

// `complete`: false if the recording was cut off or still runs.
nlohmann::ordered_json ReportJson(const RunModel& model, const Findings& findings, bool complete);
// Several lines, each terminated.
std::string ReportText(const RunModel& model, const Findings& findings, bool complete);
// "every copy counted", ...
std::string ExactnessText(Exactness exactness);
// "2 events, ..."; empty on a healthy run.
std::string LossesText(const Losses& losses);
// What a reader of the figures must know: that the recording has no end, and what was lost. Sentences.
std::vector<std::string> Warnings(const Losses& losses, bool complete);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_REPORT_H_
