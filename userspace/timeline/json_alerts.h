// The records of type "alert" of cowprof.timeline/1, which the report repeats and the alert hook reads on its stdin.
// Part of json_timeline; pure.
#ifndef COWPROF_SINK_JSON_ALERTS_H_
#define COWPROF_SINK_JSON_ALERTS_H_

#include <nlohmann/json_fwd.hpp>

#include "model/sample.h"

namespace cowprof {

nlohmann::ordered_json EncodeAlert(const Alert& alert);
// Total: what is missing or of a wrong type stays at its default.
Alert DecodeAlert(const nlohmann::ordered_json& json);

}  // namespace cowprof

#endif  // COWPROF_SINK_JSON_ALERTS_H_
