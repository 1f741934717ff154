// What is wrong, why we think so, and what to do: one pure function per diagnosis, listed in diagnosis.cc. Every
// finding names the facts that it rests on; the ids are fixed (docs/diagnoses.md).
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

// Highest confidence first. Only "clean" if nothing is wrong and causes are known; empty if nothing can be said.
// `findings` already has the sums, the forecast, the workers' tables and the post-mortems.
std::vector<Diagnosis> Diagnose(const Run& run, const Findings& findings);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_DIAGNOSIS_H_
