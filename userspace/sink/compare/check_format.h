// What a check found: in words, as Markdown, as annotations of GitHub, as JUnit XML, and as cowprof.check/1
// (schema/check.schema.json). Pure.
#ifndef COWPROF_SINK_COMPARE_CHECK_FORMAT_H_
#define COWPROF_SINK_COMPARE_CHECK_FORMAT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/judge/budget.h"

namespace cowprof {

// "Broken: 2 of 5 bounds.", "Kept: all 5 bounds.", "Can't be decided: 1 of 5 bounds."
std::string CheckSentence(const CheckResult& check);

std::string CheckText(const RunFigures& run, const CheckResult& check);
std::string CheckMarkdown(const RunFigures& run, const CheckResult& check);
std::string CheckGithub(const CheckResult& check);
std::string CheckJunit(const RunFigures& run, const CheckResult& check);
nlohmann::ordered_json CheckJson(const RunFigures& run, const CheckResult& check);

}  // namespace cowprof

#endif  // COWPROF_SINK_COMPARE_CHECK_FORMAT_H_
