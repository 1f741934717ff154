// What may hang, or fail, in a child that a process forks, by a look at its threads; and how to avoid it. Pure.
#ifndef COWPROF_MODEL_JUDGE_FORK_HAZARDS_H_
#define COWPROF_MODEL_JUDGE_FORK_HAZARDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/facts/fork_hazard.h"
#include "model/facts/run_model.h"

namespace cowprof {

// Worst first.
enum class HazardKind { kOpenMp, kLock, kImport, kCuda, kOpenCv, kThreads };

struct Hazard {
  HazardKind kind = HazardKind::kThreads;
  double confidence = 0;            // that a child is in danger
  std::string what;                 // "an OpenMP team of 3 threads (libgomp.so.1)": what the process has
  std::string effect;               // clause: what that does to a child
  std::vector<std::string> advice;  // sentences, the cheapest first
};

// In order of kind; empty: nothing is known that would harm a child. Threads that multiprocessing and torch start for
// themselves are none, nor are those of libraries that handle a fork.
std::vector<Hazard> HazardsOf(const ForkHazardSeen& seen);

// The pools of threads that exist in the process: "openmp", "openblas", "mkl", "tbb", "opencv".
std::vector<std::string> PoolsOf(const ForkHazardSeen& seen);

// What was seen, a line each: threads, pools, and what was left out.
std::vector<std::string> ThreadLines(const ForkHazardSeen& seen);

// "start them by spawn or forkserver, which would ...": what that would send, where a look at it is known.
std::string OtherStartMethods(const std::string& start_methods_sentence);

// The thread of the last look at the process `index` that had this pthread_self(); nullopt: none, or nobody looked. For
// a lock that keeps its owner's ident, after the parent's thread has released it: glibc gives an ident to the next
// thread once its owner has ended, so ask for a look that is no older than the child.
std::optional<HazardThread> ThreadByIdent(const RunModel& model, int index, uint64_t ident);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_FORK_HAZARDS_H_
