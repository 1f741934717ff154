// The verdict on a recording: in words, and as cowprof.report/1. Pure: derives nothing but sums, all figures stand in
// Growth. The only place that spells a key of the report; schema/report.schema.json fixes the format.
#ifndef COWPROF_SINK_REPORT_H_
#define COWPROF_SINK_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "model/growth.h"

namespace cowprof {

nlohmann::ordered_json ReportJson(const Growth& growth);
// Several lines, each ended; `complete` false says that the recording was cut off or still runs.
std::string ReportText(const Growth& growth, bool complete);
// One sentence: what was copied by whom.
std::string CopiesSentence(const Growth& growth);
// The same and how far the nearest limit is.
std::string Verdict(const Growth& growth);
// The limit with the highest ratio; null if none is set.
const LimitGrowth* NearestLimit(const Growth& growth);
// "Nearest limit: the host's memory, 6 % of 23.5 GiB used."
std::string LimitSentence(const LimitGrowth& limit);
// "every copy counted", ...
std::string ExactnessText(Exactness exactness);
// "2 ring buffer events, ..."; empty on a healthy run.
std::string LossesText(const Losses& losses);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_H_
