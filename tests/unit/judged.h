// Shorthands for tests that make a run by hand and ask what is found in it.
#ifndef COWPROF_TESTS_UNIT_JUDGED_H_
#define COWPROF_TESTS_UNIT_JUDGED_H_

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/judge/findings.h"
#include "sink/report/report.h"

namespace cowprof {

inline std::vector<Diagnosis> DiagnosesOf(const Run& run) { return Judge(run).diagnoses; }
using Ids = std::vector<std::string>;
inline Ids IdsOf(const Run& run) {
  Ids ids;
  for (const Diagnosis& diagnosis : DiagnosesOf(run)) ids.push_back(diagnosis.id);
  return ids;
}
// All that is said, to search in.
inline std::string TextOf(const Diagnosis& diagnosis) {
  return absl::StrCat(diagnosis.summary, "\n", absl::StrJoin(diagnosis.evidence, "\n"), "\n",
                      absl::StrJoin(diagnosis.advice, "\n"));
}

inline std::string HeadlineOf(const Run& run) { return Judge(run).headline.sentence; }
inline Forecast ForecastOf(const Run& run) { return ForecastOf(run.model, run.estimates.forecast); }
inline nlohmann::ordered_json ReportJsonOf(const Run& run) {
  return ReportJson(run.model, Judge(run), /*complete=*/true);
}
inline std::string ReportTextOf(const Run& run, bool complete) { return ReportText(run.model, Judge(run), complete); }

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_JUDGED_H_
