// What is wrong, why we think so, and what to do: one pure function a diagnosis, a row each in diagnosis.cc. Called by
// the sinks. Every finding names the facts that it rests on; the ids are fixed by the report's contract.
#ifndef COWPROF_MODEL_DIAGNOSIS_H_
#define COWPROF_MODEL_DIAGNOSIS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "model/growth.h"

namespace cowprof {

struct Diagnosis {
  std::string id;         // "cow-refcount"
  double confidence = 0;  // 0 to 1
  std::string summary;    // one sentence
  std::vector<std::string> evidence, advice;
  std::vector<pid_t> pids;  // processes that it is about
  std::string sketch;       // of the fix, lines of Python (fix_sketch.h); "": none
};

// Most important first. Where nothing is wrong and causes are known it is "clean"; empty where nothing can be said.
std::vector<Diagnosis> Diagnose(const Growth& growth);

// The largest group of copies that agree in cause, type and line: "63 % of 4.1 GiB: reference counts of str, at
// coco.py:41 in CocoDataset.__getitem__". "" where no cause is known or next to nothing was copied.
std::string TopFinding(const Growth& growth);

}  // namespace cowprof

#endif  // COWPROF_MODEL_DIAGNOSIS_H_
