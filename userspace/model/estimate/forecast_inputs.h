// What a forecast has to remember of a recording: short series of what was copied, of new memory and of each limit's
// use, the generations of workers, and where copies fell. Bounded: some 3 MiB at most, whatever the recording's length.
// Kept up by Append() of growth.h, read by forecast.cc. Pure.
#ifndef COWPROF_MODEL_HISTORY_H_
#define COWPROF_MODEL_HISTORY_H_

#include <cstdint>
#include <map>
#include <vector>

#include "model/page_pool.h"
#include "model/sample.h"
#include "model/trend.h"

namespace cowprof {

struct Growth;

struct History {
  Series copied_bytes;  // by all processes, ended ones too: never falls
  Series new_bytes;     // anonymous memory of the living beyond what each had when it was first seen; shared memory
  // Use of each limit (by its number in Growth::limits) beyond what the living have copied, which is charged to host
  // and cgroup. A worker that ends takes its copies out of both.
  std::vector<Series> beyond_copies;
  std::vector<uint64_t> earlier_peaks;  // of each limit's use: while the generations lived that have ended
  std::map<int, PagePool> pools;        // by address space

  // Workers that are forked, live and end together, as those of an epoch.
  int generations = 0;                                      // that have ended, and were followed by another
  size_t generation_workers = 0;                            // of the last one: most that lived together
  size_t generation_ended = 0;                              // and how many of it have ended
  uint64_t generation_bytes = 0, earlier_bytes = 0;         // most that was private to them: this one; those before
  uint64_t peak_private_bytes = 0, peak_ceiling_bytes = 0;  // of all living processes together
};

// Whether most of the last generation has ended.
inline bool GenerationIsOver(const History& history) {
  return history.generation_workers > 0 && 4 * history.generation_ended >= 3 * history.generation_workers;
}

// Takes in what `sample` added; to be called last, when the growth is up to date.
void Remember(const Sample& sample, const Growth& growth, History* history);

}  // namespace cowprof

#endif  // COWPROF_MODEL_HISTORY_H_
