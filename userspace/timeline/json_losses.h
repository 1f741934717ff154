// Spells what was lost, in the timeline and in the report. Called by json_timeline.cc and report_json.cc.
#ifndef COWPROF_SINK_JSON_LOSSES_H_
#define COWPROF_SINK_JSON_LOSSES_H_

#include <nlohmann/json.hpp>

#include "model/sample.h"

namespace cowprof {

nlohmann::ordered_json EncodeLosses(const Losses& losses);
Losses DecodeLosses(const nlohmann::ordered_json& json);

}  // namespace cowprof

#endif  // COWPROF_SINK_JSON_LOSSES_H_
