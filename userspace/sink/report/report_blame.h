// The parts of the report on what copied pages and why: causes, types, lines, native code, regions, diagnoses. Owns
// the keys of these parts. Pure.
#ifndef COWPROF_SINK_REPORT_REPORT_BLAME_H_
#define COWPROF_SINK_REPORT_REPORT_BLAME_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/judge/findings.h"

namespace cowprof {

nlohmann::ordered_json CausesJson(const CauseCounts& causes, bool known);  // all null if not known
// The rows of by_type, by_line and by_native, at most `most` of each.
nlohmann::ordered_json TypesJson(const BlameTables& tables, uint64_t page_bytes, size_t most);
nlohmann::ordered_json LinesJson(const BlameTables& tables, uint64_t page_bytes, size_t most);
nlohmann::ordered_json NativeJson(const BlameTables& tables, uint64_t page_bytes, size_t most);
nlohmann::ordered_json RegionsJson(const RunModel& model, const std::vector<RegionRow>& rows, size_t most);
nlohmann::ordered_json VerifyJson(const std::optional<VerifyFigures>& verified);  // null if nothing was compared
nlohmann::ordered_json DiagnosesJson(const std::vector<Diagnosis>& diagnoses);

// What to do about the first finding, and what that looks like in code. "": nothing.
std::string RemedyText(const Findings& findings);
// Tables of causes, types, lines and parts of the address space. "" if no causes are known.
std::string BlameText(const RunModel& model, const Findings& findings);
// All findings with their evidence, and what advice RemedyText left out.
std::string FindingsText(const Findings& findings);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_REPORT_BLAME_H_
