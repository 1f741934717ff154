// What is wrong, why we think so, and what to do: one pure function per diagnosis, listed in diagnosis.cc. Every
// finding names the facts that it rests on; the ids are fixed (docs/diagnoses.md).
#ifndef COWPROF_MODEL_JUDGE_DIAGNOSIS_H_
#define COWPROF_MODEL_JUDGE_DIAGNOSIS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/facts/copy_site.h"

namespace cowprof {

struct Findings;
struct Run;

// What it costs, worst first: a process died of it; a process can never go on; a limit is met, or will be; it owns
// memory; it may go wrong; nothing has to be done. Last what is no finding about this run: it might have gone wrong,
// and nothing says it did.
enum class Harm { kDeath, kHang, kLimit, kMemory, kHazard, kNone, kPossible };

// What a remedy would have saved, or will: an interval, and the best estimate. Bytes.
struct Saving {
  uint64_t low = 0, best = 0, high = 0;
  bool operator==(const Saving&) const = default;
};

// The line of the program to which most of it goes back; see ProgramLine in blame.h.
struct Culprit {
  Frame frame;
  std::string via, type;  // `type`: of the objects that this line touched most
  double share = 0;       // of the copies that the diagnosis is about
  bool operator==(const Culprit&) const = default;
};

struct Diagnosis {
  std::string id;         // "cow-refcount"
  double confidence = 0;  // 0 to 1
  Harm harm = Harm::kMemory;
  uint64_t bytes = 0;   // that it owns of the workers' peak or, where it is not about workers, of that process
  std::string summary;  // one sentence, the cause first
  std::vector<std::string> evidence, advice;
  std::vector<pid_t> pids;  // processes that it is about
  std::string sketch;       // of the fix, lines of Python (fix_sketch.h); "": none
  std::optional<Culprit> culprit;
  std::optional<Saving> saves;  // absent: no remedy is known, or what it saves can't be told
  bool operator==(const Diagnosis&) const = default;
};

// Whether it is about copies that workers made.
bool IsOfCopies(const Diagnosis& diagnosis);
// Whether it is about new memory that a process keeps allocating.
bool IsOfGrowth(const Diagnosis& diagnosis);

// By harm, then by bytes, then by confidence. If nothing is wrong and causes are known, "clean" stands alone, unless
// there is something of Harm::kPossible; empty if nothing can be said. `findings` already has the sums, the forecast,
// the workers' tables and the post-mortems.
std::vector<Diagnosis> Diagnose(const Run& run, const Findings& findings);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_DIAGNOSIS_H_
