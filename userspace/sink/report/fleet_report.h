// The verdict on several recordings: in words, and as cowprof.fleet/1 (schema/fleet.schema.json). Owns its keys. Pure.
#ifndef COWPROF_SINK_REPORT_FLEET_REPORT_H_
#define COWPROF_SINK_REPORT_FLEET_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/judge/fleet.h"

namespace cowprof {

nlohmann::ordered_json FleetJson(const Fleet& fleet);
std::string FleetText(const Fleet& fleet);
// Its rows alone, for the report of a launcher.
nlohmann::ordered_json FleetRowsJson(const Fleet& fleet);
std::string FleetRowsText(const Fleet& fleet);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_FLEET_REPORT_H_
