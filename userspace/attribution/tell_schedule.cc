// Intervals that grow with what they are measured from: the recording, or the last fork.
#include "attribution/tell_schedule.h"

#include <algorithm>
#include <utility>

namespace cowprof {
namespace {

constexpr absl::Duration kShortestGapOfPages = absl::Milliseconds(100);

}  // namespace

void TellSchedule::Tick(absl::Duration t, bool forked) {
  const double seconds = absl::ToDoubleSeconds(t - std::exchange(last_tick_, t));
  extra_ticks_ = std::min(extra_ticks_ + seconds * kExtraTicksPerSecond, kMostExtraTicks);
  kills_ = std::min(kills_ + seconds * kKillsPerSecond, kMostKills);
  if (!forked) return;
  last_fork_ = t;
  next_pages_ = std::min(next_pages_, t + kShortestGapOfPages);
}

void TellSchedule::ToldCopySites(absl::Duration t) {
  next_copy_sites_ = t + std::clamp(t / 20, absl::Milliseconds(500), absl::Seconds(30));
}

void TellSchedule::ToldPages(absl::Duration t) {
  next_pages_ = t + std::clamp((t - last_fork_) / 20, kShortestGapOfPages, absl::Seconds(30));
}

}  // namespace cowprof
