// The parts of the report that say who did it: causes, types, lines, native code, diagnoses. Called by report_json.cc
// and report_text.cc; spells the keys of these parts. Pure.
#ifndef COWPROF_SINK_REPORT_BLAME_H_
#define COWPROF_SINK_REPORT_BLAME_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/blame.h"
#include "model/growth.h"

namespace cowprof {

nlohmann::ordered_json CausesJson(const CauseCounts& causes, bool known);  // null each where not known
// The rows of by_type, by_line and by_native, at most `most` of each.
nlohmann::ordered_json TypesJson(const Growth& growth, const Blame& blame, size_t most);
nlohmann::ordered_json LinesJson(const Growth& growth, const Blame& blame, size_t most);
nlohmann::ordered_json NativeJson(const Growth& growth, const Blame& blame, size_t most);
nlohmann::ordered_json RegionsJson(const Growth& growth, size_t most);
nlohmann::ordered_json VerifyJson(const Growth& growth);  // null if nothing was compared
// Whole stacks, for a flame graph: frames as [file, function, line], innermost first.
nlohmann::ordered_json StacksJson(const Growth& growth, const Blame& blame, size_t most);
nlohmann::ordered_json DiagnosesJson(const Growth& growth);

// Tables of causes, types and lines, then the diagnoses with their advice. "" where nothing is known of causes.
std::string BlameText(const Growth& growth);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_BLAME_H_
