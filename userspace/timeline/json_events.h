// Records of type "event" of cowprof.timeline/1. Pure.
#ifndef COWPROF_TIMELINE_JSON_EVENTS_H_
#define COWPROF_TIMELINE_JSON_EVENTS_H_

#include <nlohmann/json_fwd.hpp>

#include "model/facts/event.h"

namespace cowprof {

nlohmann::ordered_json EncodeEvent(const Event& event);
// Never fails: a field that is missing or has the wrong type keeps its default, and an unknown kind is a note.
Event DecodeEvent(const nlohmann::ordered_json& json);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_EVENTS_H_
