// Compares cowprof's CPU time with elapsed time every few seconds.
#include "recorder/self_throttle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr double kShare = 0.02;  // of one core
constexpr absl::Duration kMeasureEvery = absl::Seconds(5);
constexpr double kEventShare = 0.01;                        // of one core
constexpr absl::Duration kEventCredit = absl::Seconds(10);  // of quiet: 100 ms of CPU time at once

}  // namespace

absl::Duration NextInterval(absl::Duration interval, absl::Duration wanted, double cpu_share) {
  if (cpu_share > kShare) return std::min(2 * interval, 4 * wanted);
  if (cpu_share < kShare / 3) return std::max(interval / 2, wanted);
  return interval;
}

std::optional<Event> SelfThrottle::Adjust(absl::Duration t, absl::Duration elsewhere) {
  const absl::Duration cpu = ReadClock(CLOCK_PROCESS_CPUTIME_ID) - elsewhere;
  first_ *= 2;
  // Ignore the first tick, which includes the cost of starting up.
  if (measured_at_ == -absl::InfiniteDuration()) {
    measured_at_ = t;
    cpu_then_ = cpu;
    return std::nullopt;
  }
  if (t - measured_at_ < kMeasureEvery) return std::nullopt;
  const double share = absl::FDivDuration(cpu - cpu_then_, t - measured_at_);
  measured_at_ = t;
  cpu_then_ = cpu;
  const absl::Duration before = std::exchange(interval_, NextInterval(interval_, wanted_, share));
  if (interval_ == before) return std::nullopt;
  const std::string text = absl::StrFormat("interval %s from %s to %s: cowprof used %.1f %% of a core",
                                           interval_ > before ? "stretched" : "shortened", absl::FormatDuration(before),
                                           absl::FormatDuration(interval_), 100 * share);
  return Event{.t = t, .what = Note{text}};
}

// One that came before its time, as it had waited the longest, begins the count anew: soon after a storm an event makes
// one at once again.
void EventPace::Spend(absl::Duration t, absl::Duration cost) {
  next_ = std::clamp(next_, t - kEventCredit, t) + std::max(cost, least_) / kEventShare;
}

}  // namespace cowprof
