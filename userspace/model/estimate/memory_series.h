// How much memory a process had over its life, in a few points that tell lasting growth from a start-up, a sawtooth and
// a plateau. Filled by estimates.cc, judged by diagnose_memory.cc. Pure.
#ifndef COWPROF_MODEL_ESTIMATE_MEMORY_SERIES_H_
#define COWPROF_MODEL_ESTIMATE_MEMORY_SERIES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"

namespace cowprof {

struct MemorySeries {
  // A stretch of time that begins at `t`, with the least of each figure in it: memory that is freed again is not
  // growth.
  struct Stretch {
    absl::Duration t;
    uint64_t new_pages = 0;   // anonymous, in memory or swap, not from a file mapping
    uint64_t file_pages = 0;  // RssFile
    uint64_t private_bytes = 0;
    uint64_t zero_fills = 0;  // since it was first followed, at `t`: first touches of new pages, freed later or not
  };
  std::vector<Stretch> stretches;  // at most kMost; beyond that, neighbours are merged
  uint64_t samples_per_stretch = 1, samples_in_last = 0;

  static constexpr size_t kMost = 64;
  void Add(const Stretch& sample);
};

struct Rise {
  uint64_t pages = 0;
  absl::Duration begin, duration;
  uint64_t zero_fills = 0;  // in that time
};

// Returns how much new memory rose, if it kept growing through the last three quarters of what is known and did not
// slow down: a leak is straight, a cache that fills bends. nullopt otherwise, or if too little is known. If the process
// has `ended`, what it freed at the end does not count.
std::optional<Rise> SustainedRise(const MemorySeries& series, bool ended);

// Whether its new memory came in the last quarter of what is known, of 3 s at most, at 0.4 of its mean rate or faster:
// then a short recording can't tell whether it keeps growing.
bool RoseAtTheEnd(const MemorySeries& series, bool ended);

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_MEMORY_SERIES_H_
