// Limits in JSON: in the timeline, in the report and in the output of `doctor`. Pure.
//
// These differ in what they add to a limit's kind and name, and existing files fix the order of keys. So they share
// these parts and add their own, such as a peak or a forecast.
#ifndef COWPROF_TIMELINE_JSON_LIMITS_H_
#define COWPROF_TIMELINE_JSON_LIMITS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/facts/limit.h"

namespace cowprof {

struct SampleRecord;

// Kind, name and unit.
nlohmann::ordered_json LimitNameJson(const LimitSample& limit);
// The same, with limit (null: none is set) and used.
nlohmann::ordered_json LimitUseJson(const LimitSample& limit);
nlohmann::ordered_json RatioJson(const LimitSample& limit);  // null: none is set

// The same, with the ratio. In the header of a timeline and in the output of `doctor`.
nlohmann::ordered_json EncodeLimit(const LimitSample& limit);
// The limit that made the kernel kill a process, in an event: in every version without a unit, and without `limit` if
// none is set.
nlohmann::ordered_json EncodeMetLimit(const LimitSample& limit);

// Decodes any of these, and an alert, which has the same keys among others. Never fails: a field that is missing or has
// the wrong type keeps its default.
LimitSample DecodeLimit(const nlohmann::ordered_json& json);

// ---- Of a sample record ----

// Appends `,"new_limits":[...],"limits":[...]` without what did not change since `written`, and brings that up to date.
// A limit's name is written once, in the first sample that has it.
void EncodeLimits(const std::vector<LimitSample>& limits, std::vector<LimitSample>* written, std::string* out);
// The reverse: applies what changed to the limits of the sample before.
void DecodeLimits(const SampleRecord& record, std::vector<LimitSample>* limits);
nlohmann::ordered_json NamesOfLimitColumns();  // for the header

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_LIMITS_H_
