// The losses of a recording, spelled the same in the timeline and in the report. Pure.
#ifndef COWPROF_TIMELINE_JSON_LOSSES_H_
#define COWPROF_TIMELINE_JSON_LOSSES_H_

#include <nlohmann/json.hpp>

#include "model/facts/sample.h"

namespace cowprof {

nlohmann::ordered_json EncodeLosses(const Losses& losses);
Losses DecodeLosses(const nlohmann::ordered_json& json);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_LOSSES_H_
