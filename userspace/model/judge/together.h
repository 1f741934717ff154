// The most that processes which lived at one time had together. Pure.
#ifndef COWPROF_MODEL_JUDGE_TOGETHER_H_
#define COWPROF_MODEL_JUDGE_TOGETHER_H_

#include <cstdint>
#include <map>

#include "absl/time/time.h"
#include "model/facts/run_model.h"

namespace cowprof {

// What processes that lived at one time had, and how many of them had any.
struct Together {
  uint64_t sum = 0, processes = 0;
};

// The most of that, if each process had `share(process)` all its life.
template <typename Share>
Together MostTogether(const RunModel& model, const Share& share) {
  std::map<absl::Duration, Together> changes;  // modulo 2^64, as are their sums
  for (const ProcessModel& process : model.processes) {
    const uint64_t own = share(process);
    if (own == 0) continue;
    Together& start = changes[process.started];
    start.sum += own;
    ++start.processes;
    if (!process.ended) continue;
    Together& end = changes[*process.ended];
    end.sum -= own;
    --end.processes;
  }
  Together now, most;
  for (const auto& [t, change] : changes) {
    now.sum += change.sum;
    now.processes += change.processes;
    if (now.sum > most.sum) most = now;
  }
  return most;
}

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_TOGETHER_H_
