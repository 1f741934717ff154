// What a process's new memory was touched first for, by a sample of the stacks at first touches: received through
// pickle, imported, or at a line of the program. Pure.
#ifndef COWPROF_MODEL_JUDGE_GROWTH_H_
#define COWPROF_MODEL_JUDGE_GROWTH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "model/estimate/memory_series.h"
#include "model/facts/run_model.h"
#include "model/judge/diagnosis.h"

namespace cowprof {

inline constexpr absl::Duration kLongEnough = absl::Seconds(30);  // to see whether memory keeps growing

enum class GrowthKind {
  kOther,
  kImported,          // by the import system, or as spawn prepared the process, which runs the main module once more
  kUnpickledAtStart,  // spawn, forkserver, loky: what the process was started with. It lives as long as the process
  kReceived,          // from a queue or pipe of multiprocessing: tasks and their arguments
};
GrowthKind KindOf(const RunModel& model, const GrowthSite& site);

// Of the new memory that a process holds, what was unpickled. Bytes.
struct Unpickled {
  uint64_t at_start = 0;
  // Only what can't be anything else: the part that is left if all other new pages that the process ever touched are
  // still there.
  uint64_t received = 0;
};
// `fresh_bytes`: that it holds. nullopt: its stacks were not sampled.
std::optional<Unpickled> UnpickledIn(const RunModel& model, const ProcessModel& process, uint64_t fresh_bytes);

// A rise without what a process of multiprocessing imported meanwhile, or unpickled of what it was started with: on a
// slow machine that takes most of a short life. In a life of kLongEnough an import counts: a module may be a job that
// runs for good. At least all of that, see GrowthModel::PagesSince().
Rise WithoutLoaded(const RunModel& model, const ProcessModel& process, Rise rise);

// Whether a copy was made while multiprocessing pickled something to send it.
bool IsPickling(const RunModel& model, const CopySite& copy_site);

// Returns the line of the program where most of the memory of a rise, which is without what was loaded meanwhile, was
// touched first. nullopt: the stacks were not sampled, no line has half of it, or the process touched so many more new
// pages than it kept that the line may have freed its own.
std::optional<Culprit> CulpritOf(const RunModel& model, const ProcessModel& process, const Rise& rise);
// Of several processes: `rise` is of all together, with what they loaded. What they unpickled at their start has no
// line.
std::optional<Culprit> CulpritOf(const RunModel& model, absl::Span<const ProcessModel* const> processes,
                                 const Rise& rise);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_GROWTH_H_
