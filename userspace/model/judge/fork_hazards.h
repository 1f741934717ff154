// What may hang, or fail, in a child that a process forks, by a look at its threads; and how to avoid it. Pure.
#ifndef COWPROF_MODEL_JUDGE_FORK_HAZARDS_H_
#define COWPROF_MODEL_JUDGE_FORK_HAZARDS_H_

#include <string>
#include <vector>

#include "model/facts/fork_hazard.h"

namespace cowprof {

// Worst first.
enum class HazardKind { kOpenMp, kLock, kImport, kCuda, kOpenCv, kNative, kThreads };

struct Hazard {
  HazardKind kind = HazardKind::kThreads;
  double confidence = 0;            // that a child is in danger
  std::string what;                 // "an OpenMP team of 3 threads (libgomp.so.1)": what the process has
  std::string effect;               // clause: what that does to a child
  std::vector<std::string> advice;  // sentences, the cheapest first
};

// Whether a thread with this stack was started by multiprocessing for itself, to feed a queue or to serve descriptors,
// and runs no code of the program now: it neither takes nor releases the program's locks.
bool RunsOnlyHelperCode(const std::vector<Frame>& stack);

// Whether a thread with this stack runs an event loop of asyncio, or the work of an executor: it sets results of
// Futures.
bool SetsFutures(const std::vector<Frame>& stack);

// Whether the main thread of multiprocessing's forkserver has this stack. What it forks has it, too, below its own.
bool IsForkserver(const std::vector<Frame>& stack);

// In order of kind; empty: nothing is known that would harm a child. Threads that multiprocessing and torch start for
// themselves are none, nor are those of libraries that handle a fork.
std::vector<Hazard> HazardsOf(const ForkHazardSeen& seen);

// The pools of threads that exist in the process: "openmp", "openblas", "mkl", "tbb", "opencv".
std::vector<std::string> PoolsOf(const ForkHazardSeen& seen);

// What was seen, a line each: threads, pools, and what was left out.
std::vector<std::string> ThreadLines(const ForkHazardSeen& seen);

// "start them by spawn or forkserver, which would ...": what that would send, where a look at it is known.
std::string OtherStartMethods(const std::string& start_methods_sentence);
// The same for a forkserver, all of whose threads are those of what it imports.
std::string InsteadOfPreloading();

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_FORK_HAZARDS_H_
