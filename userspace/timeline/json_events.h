// The records of type "event" of cowprof.timeline/1. Part of json_timeline, which alone calls it; pure.
#ifndef COWPROF_SINK_JSON_EVENTS_H_
#define COWPROF_SINK_JSON_EVENTS_H_

#include <nlohmann/json_fwd.hpp>

#include "model/sample.h"

namespace cowprof {

nlohmann::ordered_json EncodeEvent(const Event& event);
// Total: what is missing or of a wrong type stays at its default, and an unknown kind is a note.
Event DecodeEvent(const nlohmann::ordered_json& json);

}  // namespace cowprof

#endif  // COWPROF_SINK_JSON_EVENTS_H_
