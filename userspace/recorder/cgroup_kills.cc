// Compares kill counts over a window that is long enough for the kernel to tear down a large process.
#include "recorder/cgroup_kills.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "model/facts/oom_evidence.h"

namespace cowprof {
namespace {

// The kernel counts a kill before the process is gone; limits may be read in between.
constexpr absl::Duration kKillWindow = absl::Seconds(2);

}  // namespace

void CgroupKills::AddVictims(const std::vector<LimitSample>& limits, Sample* sample) {
  if (before_.empty()) before_ = since_ = limits;
  std::vector<Event> victims = OomVictims(before_, limits, sample->events);
  sample->events.insert(sample->events.end(), victims.begin(), victims.end());
  absl::c_stable_sort(sample->events, [](const Event& a, const Event& b) { return a.t < b.t; });
  if (!victims.empty()) since_ = limits;  // these kills are reported
  if (!victims.empty() || sample->t >= since_at_ + kKillWindow) {
    before_ = std::exchange(since_, limits);
    since_at_ = sample->t;
  }
}

}  // namespace cowprof
