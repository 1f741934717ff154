// Records of type "alert" of cowprof.timeline/1, which the report repeats and an alert hook gets on its stdin. Pure.
#ifndef COWPROF_TIMELINE_JSON_ALERTS_H_
#define COWPROF_TIMELINE_JSON_ALERTS_H_

#include <nlohmann/json_fwd.hpp>

#include "model/judge/alert.h"

namespace cowprof {

nlohmann::ordered_json EncodeAlert(const Alert& alert);
// Never fails: a field that is missing or has the wrong type keeps its default.
Alert DecodeAlert(const nlohmann::ordered_json& json);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_ALERTS_H_
