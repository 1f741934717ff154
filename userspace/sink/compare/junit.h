// JUnit XML, as CI systems read it: one test suite with a case for each thing that was held against something. Also
// the workflow commands with which GitHub annotates lines. Pure.
#ifndef COWPROF_SINK_COMPARE_JUNIT_H_
#define COWPROF_SINK_COMPARE_JUNIT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace cowprof {

enum class CaseResult { kPassed, kFailed, kError };  // kError: it could not be decided

struct JunitCase {
  std::string name;
  CaseResult result = CaseResult::kPassed;
  std::string message;  // of a failure or error: one line
  std::string detail;
};

std::string JunitXml(absl::string_view suite, const std::vector<JunitCase>& cases, absl::Duration time);

// "::error file=train.py,line=12::message\n". `level`: "error", "warning", "notice". No file: of the whole run.
std::string Annotation(absl::string_view level, absl::string_view file, int line, absl::string_view message);

// A cell of a Markdown table, as text that stays text.
std::string MarkdownCell(absl::string_view text);

}  // namespace cowprof

#endif  // COWPROF_SINK_COMPARE_JUNIT_H_
