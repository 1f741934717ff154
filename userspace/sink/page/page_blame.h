// What each process copied over time: its copies at each place, at up to 512 checkpoints. As in the report's tables,
// the figures come from ScaleToCounted().
#ifndef COWPROF_SINK_PAGE_PAGE_BLAME_H_
#define COWPROF_SINK_PAGE_PAGE_BLAME_H_

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "model/facts/run_model.h"
#include "model/judge/blame.h"
#include "sink/page/page_columns.h"
#include "sink/page/page_moments.h"
#include "sink/page/side_thread.h"

namespace cowprof {

class PageBlame {
 public:
  static constexpr size_t kMostCheckpoints = 512, kMostSteps = 400'000;

  // `side`: where steps are added; null: in Add().
  explicit PageBlame(SideThread* side = nullptr) : side_(side) {}
  // `model` already includes the sample.
  void Add(const Sample& sample, const RunModel& model);
  // Returns once all steps are added. Call before Write() if there is a `side`.
  void Settle();
  // Sets frames, places and blame. The last checkpoint is the recording's end.
  void Write(const RunModel& model, ColumnFile* file, nlohmann::ordered_json* page) const;
  // Of how many processes it keeps something: of no more than the model lists.
  size_t processes() const { return counted_.size(); }

 private:
  // There are up to kMostSteps of these: as small as they can be. What is too large for a column need not be told
  // apart.
  static constexpr uint64_t kMostCopies = (uint64_t{1} << 54) - 1;
  static_assert(kMostCheckpoints < 1 << 10);
  struct Step {
    uint64_t at : 10 = 0;  // number of the first checkpoint that it holds for
    uint64_t copies : 54 = 0;
  };
  // What a process copied at one place.
  struct Place {
    int copy_site = 0;
    uint64_t copies = 0;  // of the last of its steps, which are elsewhere in memory
    std::vector<Step> steps;
  };
  // Copies of those processes whose copies changed, as samples stand for them, and not scaled yet.
  struct Checkpoint {
    size_t at = 0;  // its number
    struct Of {
      int index = 0;
      uint64_t copies = 0;
      size_t sites = 0;  // how many of copy_sites are its own, in this order
    };
    std::vector<Of> processes;
    std::vector<CopySiteShare> copy_sites;
  };
  void Touch(absl::Span<const ProcessSample> rows);
  void AddCheckpoint(const RunModel& model);
  void AddSteps(Checkpoint* checkpoint);
  void AddSteps(int index, absl::Span<const CopySiteShare> shares, size_t at);
  void ForgetUnlisted(const RunModel& model);
  void MergePairs();

  SideThread* side_;
  Checkpoint adding_;  // with places_ and step_count_: the other thread's until it has done `handed_over_`
  uint64_t handed_over_ = 0;
  Moments checkpoints_;
  std::map<int, std::vector<Place>> places_;  // by process; in order of copy sites
  std::map<int, Count> counted_;              // copies of a process at its last checkpoint
  absl::flat_hash_set<int> touched_;          // processes that had a row since then: there may be thousands more
  std::vector<int> last_touched_;             // of them, those of the last sample, in its order
  std::set<int> changed_;                     // processes whose places changed since then; some may be forgotten
  bool any_changed_ = false;                  // places did, since the last checkpoint
  bool forgot_places_ = false;                // of a process that is not listed any more
  size_t step_count_ = 0;
  size_t every_ = 1, records_ = 0;  // one in `every_` records with places makes a checkpoint
};

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_BLAME_H_
