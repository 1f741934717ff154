// What is wrong, why we think so, and what to do: one pure function a diagnosis, a row each in diagnosis.cc. Called by
// the sinks. Every finding names the facts that it rests on; the ids are fixed by the report's contract.
#ifndef COWPROF_MODEL_JUDGE_DIAGNOSIS_H_
#define COWPROF_MODEL_JUDGE_DIAGNOSIS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace cowprof {

struct Findings;
struct Run;

struct Diagnosis {
  std::string id;         // "cow-refcount"
  double confidence = 0;  // 0 to 1
  std::string summary;    // one sentence
  std::vector<std::string> evidence, advice;
  std::vector<pid_t> pids;  // processes that it is about
  std::string sketch;       // of the fix, lines of Python (fix_sketch.h); "": none
  bool operator==(const Diagnosis&) const = default;
};

// Most important first. Where nothing is wrong and causes are known it is "clean"; empty where nothing can be said.
// `findings` has the sums, the forecast, the workers' tables and who died of what.
std::vector<Diagnosis> Diagnose(const Run& run, const Findings& findings);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_DIAGNOSIS_H_
