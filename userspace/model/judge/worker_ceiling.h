// What workers that are not forked yet will cost at most, against each limit. Pure. An expectation would be a guess:
// how much of a program's memory its workers read shows only when they do.
#ifndef COWPROF_MODEL_JUDGE_WORKER_CEILING_H_
#define COWPROF_MODEL_JUDGE_WORKER_CEILING_H_

#include <cstdint>
#include <vector>

#include "model/facts/run_model.h"
#include "model/facts/sample.h"
#include "model/judge/forecast.h"

namespace cowprof {

struct LimitAfter {
  LimitSample now;
  uint64_t used_at_most = 0;
  Outlook outlook = Outlook::kSafe;
};

struct WorkerCeiling {
  uint64_t workers = 0, bytes_each = 0;
  uint64_t bytes = 0;              // of all workers together, on top of what is used
  std::vector<LimitAfter> limits;  // those on memory, to which copies are charged
};

// A page that the parent and n workers share can become n + 1 pages, one of which exists: so n workers cost at most n
// times the anonymous memory of the parent. Pages of files and of shared memory are never copied by reading.
WorkerCeiling CeilingOfWorkers(uint64_t workers, uint64_t parent_anonymous_bytes,
                               const std::vector<LimitSample>& limits);

// What one more worker, forked now, could copy at most: all that the largest process has which may fork it. That need
// not be the target: a launcher or a shell forks none. Bytes.
uint64_t NextWorkerBytes(const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_WORKER_CEILING_H_
