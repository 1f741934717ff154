// Records of type "alert" of cowprof.timeline/1, which the report repeats and an alert hook gets on its stdin. Pure.
#ifndef COWPROF_TIMELINE_JSON_ALERTS_H_
#define COWPROF_TIMELINE_JSON_ALERTS_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "model/judge/alert.h"

namespace cowprof {

nlohmann::ordered_json EncodeAlert(const Alert& alert);
// Never fails: a field that is missing or has the wrong type keeps its default.
Alert DecodeAlert(const nlohmann::ordered_json& json);
// Also that of a diagnosis in the report; null: absent.
nlohmann::ordered_json EncodeCulprit(const std::optional<Culprit>& culprit);
std::optional<Culprit> DecodeCulprit(const nlohmann::ordered_json& json);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_ALERTS_H_
