// Who did it, over time: at up to 512 checkpoints how many copies each process had made at each place.
// The figures are those of CopiesByCopySite(), of which the report's tables are sums, too.
#ifndef COWPROF_SINK_PAGE_PAGE_BLAME_H_
#define COWPROF_SINK_PAGE_PAGE_BLAME_H_

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <utility>
#include <vector>

#include "model/facts/run_model.h"
#include "sink/page/page_columns.h"
#include "sink/page/page_moments.h"

namespace cowprof {

class PageBlame {
 public:
  static constexpr size_t kMostCheckpoints = 512, kMostSteps = 400'000;

  // `model` has the sample in it already.
  void Add(const Sample& sample, const RunModel& model);
  // Sets frames, places and blame. The last checkpoint is the recording's end.
  void Write(const RunModel& model, ColumnFile* file, nlohmann::ordered_json* page) const;

 private:
  struct Step {
    size_t at = 0;  // number of the checkpoint from which on
    uint64_t copies = 0;
  };
  void AddCheckpoint(const RunModel& model);
  void MergePairs();

  Moments checkpoints_;
  std::map<std::pair<int, int>, std::vector<Step>> steps_;  // by process and place
  std::map<int, Count> counted_;                            // copies of a process at its last checkpoint
  std::set<int> changed_;                                   // processes with news of places since then
  size_t step_count_ = 0;
  size_t every_ = 1, records_ = 0;  // every so many of the records that have places make a checkpoint
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_BLAME_H_
