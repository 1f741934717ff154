// What a diagnosis says of each process that it is about: so much memory, in these words. Pure.
#ifndef COWPROF_MODEL_JUDGE_GROWER_H_
#define COWPROF_MODEL_JUDGE_GROWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "model/facts/run_model.h"
#include "model/judge/diagnosis.h"

namespace cowprof {

// An interpreter and its libraries take less: a forked torch worker maps some 20 MiB of files just by running.
inline constexpr uint64_t kSizeableBytes = 32 << 20;

// What is said about one process, and its size; the largest come first.
struct Grower {
  const ProcessModel* process;
  uint64_t bytes = 0;
  double per_second = 0;
  std::string text;
  std::optional<Culprit> culprit = std::nullopt;   // where its new memory was touched first
  absl::Duration duration = absl::ZeroDuration();  // in which `bytes` came
};

// Makes the line of the largest grower the diagnosis's. Returns the words for it: "; about 93 % of it first touched at
// loader.py:12 in Cache.add", or "".
std::string TakeCulprit(const std::vector<Grower>& growers, Diagnosis* diagnosis);
// Adds pids and evidence, the largest first.
void AddGrowers(std::vector<Grower> growers, Diagnosis* diagnosis);
// Whether none of them is Python, whatever else runs beside them: nothing of Python is advised then. One that was
// looked at as it started may have been taken for a native program.
bool HaveNoPython(const std::vector<Grower>& growers);
uint64_t SumOf(const std::vector<Grower>& growers);
uint64_t MostOf(const std::vector<Grower>& growers);
// "93.0 MiB in 2 workers"
std::string SumText(const std::vector<Grower>& growers, absl::string_view noun);
absl::Duration LifeOf(const ProcessModel& process, const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_GROWER_H_
