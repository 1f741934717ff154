// How a limit is spelled in JSON: in the timeline, in the report and in what `doctor` prints. Pure.
//
// The places differ in what they say beside a limit's kind and name, and their order of keys is part of files that
// exist: so they share these parts and add their own, as a peak or a forecast.
#ifndef COWPROF_TIMELINE_JSON_LIMITS_H_
#define COWPROF_TIMELINE_JSON_LIMITS_H_

#include <nlohmann/json_fwd.hpp>

#include "model/facts/limit.h"

namespace cowprof {

// What limit it is: kind, name and unit.
nlohmann::ordered_json LimitNameJson(const LimitSample& limit);
// The same, and how full it is: limit (null: none is set) and used.
nlohmann::ordered_json LimitUseJson(const LimitSample& limit);
nlohmann::ordered_json RatioJson(const LimitSample& limit);  // null: none is set

// The same, and the ratio. In the header of a timeline and in the output of `doctor`.
nlohmann::ordered_json EncodeLimit(const LimitSample& limit);
// The limit that made the kernel kill a process, in an event: written by every version without a unit, and without a
// limit where none is set.
nlohmann::ordered_json EncodeMetLimit(const LimitSample& limit);

// Of any of these, and of an alert, which has the same keys among its own. Total: what is missing or of a wrong type
// stays at its default.
LimitSample DecodeLimit(const nlohmann::ordered_json& json);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_LIMITS_H_
