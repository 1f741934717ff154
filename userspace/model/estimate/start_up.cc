#include "model/estimate/start_up.h"

#include <algorithm>
#include <utility>

#include "model/facts/ended_aggregate.h"

namespace cowprof {
namespace {

// torch takes 2 to 20 s to import on a slow disk, and data sets of some GiB as long to load.
constexpr absl::Duration kBeginning = absl::Minutes(1);
constexpr absl::Duration kForkedBeginning = absl::Seconds(2);  // a forked worker has everything imported
constexpr uint64_t kLoadedBytes = 1 << 20;  // a smaller rise is not loading; an interpreter that waits gets less
// A target that loads waits for its disk now and then.
constexpr absl::Duration kPauseOfLoad = absl::Seconds(3);

absl::Duration AgeOfTarget(const RunModel& model) {
  const absl::Duration unknown = model.info.started_target ? absl::ZeroDuration() : absl::InfiniteDuration();
  return model.info.target_age.value_or(unknown) + model.t;
}

// A child comes after its parent: those that ask are young, and a report lists tens of thousands before them.
bool HasForkedWorker(const ProcessModel& parent, const RunModel& model) {
  const auto children = std::upper_bound(model.processes.begin(), model.processes.end(), parent.index,
                                         [](int index, const ProcessModel& process) { return index < process.index; });
  return std::any_of(children, model.processes.end(), [&](const ProcessModel& process) {
    return process.parent == parent.index && process.is_worker() && !process.execed;
  });
}

}  // namespace

std::optional<absl::Duration> StartUp::Learn(const RunModel& model) {
  std::optional<absl::Duration> over;
  ForEachLately(model, [&](const ProcessModel& process) {
    if (!process.is_worker() || std::exchange(workers_, true)) return;
    loads_ = false;
    over = process.started;
  });
  if (model.target() != nullptr && !model.info.started_target) {
    const Count pages = model.target()->proc.anon_pages;
    if (pages && (!target_pages_ || *pages > *target_pages_ + kLoadedBytes / model.info.page_bytes)) {
      target_pages_ = pages;
      rose_ = model.t;
    }
    if (loads_ && target_pages_ && model.t - rose_ >= kPauseOfLoad) {
      loads_ = false;
      over = model.t;
    }
  }
  begins_ = loads_ && AgeOfTarget(model) < kBeginning;
  LearnTaken(model);
  return over;
}

bool StartUp::begins(const ProcessModel& process, const RunModel& model) const {
  if (process.index == 0) return begins_;
  return process.execed && !process.persistent && model.t - process.started < kBeginning &&
         !HasForkedWorker(process, model);
}

void StartUp::LearnTaken(const RunModel& model) {
  const double page_bytes = model.info.page_bytes;
  const auto lives = [&](int index) {
    const ProcessModel* process = model.Find(index);
    return process != nullptr && !process->ended;
  };
  std::erase_if(taken_, [&](const auto& one) { return !lives(one.first); });
  const absl::Duration lately = model.t - kForkedBeginning;
  ForEachLately(model, [&](const ProcessModel& process) {
    const bool forked = process.origin == Origin::kForked && !process.execed && process.index != 0;
    if (process.ended || !process.proc.anon_pages) return;
    if (!(forked && process.started > lately) && !begins(process, model)) return;
    const double anonymous = process.anonymous_pages(), first = process.first_anonymous_pages();
    taken_[process.index] = {
        .anonymous_bytes = std::max(anonymous - first, 0.0) * page_bytes,
        .shared_bytes = process.index == 0 ? process.proc.shmem_pages.value_or(0) * page_bytes : 0};
  });
  anonymous_bytes_ = shared_bytes_ = outside_bytes_ = 0;
  for (const auto& [index, taken] : taken_) {
    anonymous_bytes_ += taken.anonymous_bytes;
    shared_bytes_ += taken.shared_bytes;
    if (!model.Find(index)->is_worker()) outside_bytes_ += taken.anonymous_bytes;
  }
}

}  // namespace cowprof
