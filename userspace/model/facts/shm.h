// What segments of shared memory mean: which kind and creator a name shows, which segments were left behind, how many
// batches wait in them, and what became of each since the last look. Pure: no I/O, no clock. source/shm.h reads the
// facts.
#ifndef COWPROF_MODEL_FACTS_SHM_H_
#define COWPROF_MODEL_FACTS_SHM_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/facts/enum_names.h"
#include "model/facts/sample.h"

namespace cowprof {

// Classifies a name in /dev/shm: "torch_<pid>_<random>_<n>" (torch, both strategies), "psm_<hex>"
// (multiprocessing.shared_memory), "pym-<pid>-<random>" (multiprocessing.heap: Array, Value), "sem.<name>"
// (sem_open(3)). Anything else is a file that a user put there.
SegmentKind KindOfName(absl::string_view name);
// The pid in such a name; 0 if there is none.
pid_t CreatorInName(absl::string_view name);

// Whether segments of this kind are of no use to anybody once the processes that use them have ended.
bool EndsWithItsProcesses(SegmentKind kind);

std::string FormatSegment(const ShmSegment& segment);                // "numpy file", "torch, unlinked"
std::vector<pid_t> OwnersOf(const ShmSegment& segment);              // pids that map or hold it, each once, ascending
bool IsOnMount(const ShmSample& sample, const ShmSegment& segment);  // whether it counts against the mount's capacity

// kLeaked: it has a name, its kind should end with its processes, and nothing that could own it is left.
enum class Ownership { kOwned, kLeaked, kUnknown };
template <>
inline constexpr auto kNamesOf<Ownership> = NamesFor<Ownership>("owned", "leaked", "unknown");
Ownership OwnershipOf(const ShmSample& sample, const ShmSegment& segment);

struct ShmTotal {
  uint64_t segments = 0, bytes = 0;
};
std::map<SegmentKind, ShmTotal> TotalsByKind(const ShmSample& sample);  // of those on the mount
ShmTotal LeakedIn(const ShmSample& sample);
// Segments of `last` that were leaked in `whole`, the last whole look, and still have no owner. `last` may be the same,
// or a look at the followed processes only.
std::vector<const ShmSegment*> StillLeaked(const ShmSample& whole, const ShmSample& last);
ShmTotal TotalOf(const std::vector<const ShmSegment*>& segments);
// Used bytes that no known segment accounts for.
uint64_t UnexplainedBytes(const ShmSample& sample);

// Torch segments of the one size that takes up most: batch tensors on their way from the workers.
struct Batches {
  uint64_t segments = 0, bytes_each = 0;
  uint64_t creators = 0;  // processes that made them; 0: not known
  uint64_t bytes() const { return segments * bytes_each; }
};
std::optional<Batches> BatchesIn(const ShmSample& sample);
// "12 segments of 3.1 MiB from 4 processes, 3 each: 37.2 MiB in flight or still in use"
std::string BatchesText(const Batches& batches);

// Fills in what only two looks can show: lost names, and for how long a segment had no owner. `living`: processes that
// `now` found alive.
void CompareLooks(const ShmSample& before, const std::vector<pid_t>& living, ShmSample* now);
// Sorts segments by size and keeps `most` of them, preferring leaked ones and those that lost their name; counts the
// others as omitted.
void KeepLargest(size_t most, ShmSample* sample);

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_SHM_H_
