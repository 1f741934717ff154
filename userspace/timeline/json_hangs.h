// `hangs` of a report, of an event and of `cowprof hang --json`. Owns their keys. Pure.
#ifndef COWPROF_TIMELINE_JSON_HANGS_H_
#define COWPROF_TIMELINE_JSON_HANGS_H_

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "absl/types/span.h"
#include "model/facts/hang.h"

namespace cowprof {

nlohmann::ordered_json HangsJson(absl::Span<const Hang> hangs);
// Never fails: a field that is missing or has the wrong type keeps its default.
std::vector<Hang> DecodeHangs(const nlohmann::ordered_json& json);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_HANGS_H_
