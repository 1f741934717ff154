// The table of what each remedy would save. Owns its keys in the report. Pure.
#ifndef COWPROF_SINK_REPORT_REMEDIES_FORMAT_H_
#define COWPROF_SINK_REPORT_REMEDIES_FORMAT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/judge/remedies.h"

namespace cowprof {

nlohmann::ordered_json RemediesJson(const std::vector<Remedy>& remedies);
std::string RemediesText(const std::vector<Remedy>& remedies);  // "" if there is none
// "36.7 MiB to 45.9 MiB", "costs 12.0 MiB to 20.0 MiB", "-12.0 MiB to 3.0 MiB", "nothing", "unknown"
std::string SavesText(const Remedy& remedy);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_REMEDIES_FORMAT_H_
