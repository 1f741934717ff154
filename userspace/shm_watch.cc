// See shm_watch.h.
#include "shm_watch.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "model/shm.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

// Shares of one core: in the long run, and while a look goes on, whose steps take no tick longer than this.
constexpr double kLongShare = 0.005, kTickShare = 0.02;
constexpr absl::Duration kLongestStep = absl::Milliseconds(20);
constexpr int kTicksBetweenLooks = 10;
// Of one look: entries of the folder that are read, segments that the next one is compared with, and that are told.
constexpr uint64_t kMostEntries = 10'000;
constexpr size_t kMostCompared = 2000, kMostTold = 200;
constexpr absl::Duration kLastLook = absl::Milliseconds(300);
// How long the end of a process, and those that tidy up after it, may take.
constexpr absl::Duration kTidying = absl::Milliseconds(500), kPause = absl::Milliseconds(20);

bool HasLeftovers(const ShmSample& sample) { return LeakedIn(sample).segments > 0; }

}  // namespace

// A name that is removed frees nothing while somebody uses what it named.
void ShmWatch::NoteChanges(const ShmTick& tick) {
  const absl::Time names = LastNameChange(proc_, tick.target);
  changed_ |= tick.processes_changed || std::exchange(names_changed_, names) != names ||
              (tick.mount != nullptr && tick.mount->used != used_then_);
}

// A part of the capacity that was filled since the last look is worth a quick one, of the followed processes only:
// before the workers die of it.
bool ShmWatch::IsDue(const ShmTick& tick) {
  if (!changed_) return false;
  whole_ = tick.t >= next_whole_;
  if (whole_) return true;
  return tick.mount != nullptr && tick.mount->limit && tick.mount->used > used_then_ &&
         tick.mount->used - used_then_ >= *tick.mount->limit / 8 && tick.t >= next_quick_;
}

void ShmWatch::Begin(const ShmTick& tick, std::vector<pid_t> followed) {
  used_then_ = tick.mount != nullptr ? tick.mount->used : 0;
  // A leftover is one only if it is still there next time.
  changed_ = whole_ && before_ && HasLeftovers(*before_);
  look_cost_ = absl::ZeroDuration();
  absl::StatusOr<ShmLook> look = ShmLook::Begin(
      proc_, {.viewer = tick.target, .first = std::move(followed), .whole = whole_, .most_entries = kMostEntries});
  if (look.ok()) look_.emplace(*std::move(look));
  if (!look.ok()) next_whole_ = next_quick_ = tick.t + kTicksBetweenLooks * tick.interval;
}

bool ShmWatch::RunLook(absl::Duration budget) {
  const absl::Duration before = ReadClock(CLOCK_THREAD_CPUTIME_ID);
  const bool done = look_->Run(budget);
  const absl::Duration cost = ReadClock(CLOCK_THREAD_CPUTIME_ID) - before;
  look_cost_ += cost;
  cost_ += cost;
  return done;
}

ShmSample ShmWatch::TakeLook() {
  const std::vector<pid_t> living = look_->living();
  ShmSample sample = look_->Take();
  look_.reset();
  CompareLooks(before_.value_or(ShmSample{}), living, &sample);
  KeepLargest(kMostCompared, &sample);
  if (sample.whole) before_ = sample;
  KeepLargest(kMostTold, &sample);
  return sample;
}

std::optional<ShmSample> ShmWatch::GoOn(const ShmTick& tick) {
  const bool first = !before_;
  if (!RunLook(first ? kLongestStep : std::min(kLongestStep, kTickShare * tick.interval))) return std::nullopt;
  next_quick_ = tick.t + std::max(2 * tick.interval, whole_ ? absl::ZeroDuration() : look_cost_ / kTickShare);
  if (whole_) next_whole_ = tick.t + std::max(kTicksBetweenLooks * tick.interval, look_cost_ / kLongShare);
  ShmSample sample = TakeLook();
  changed_ |= sample.whole && HasLeftovers(sample);
  return sample;
}

// The target's own view is gone with it; another process, or we ourselves, may see the same mount. Where nobody does,
// it is gone, too.
std::optional<pid_t> ShmWatch::ViewerAfterEnd(pid_t target) {
  const absl::Duration end = BootTime() + kTidying;
  const auto is_going = [&] {  // it was heard to end, but may still have its memory
    const absl::StatusOr<ProcStat> stat = proc_.ReadStat(target);
    return stat.ok() && stat->state != 'Z';
  };
  while (is_going() && BootTime() < end) absl::SleepFor(kPause);
  if (!before_) return std::nullopt;
  // Names that go with the target, by its tracker, while workers still end are no loss.
  for (ShmSegment& segment : before_->segments) segment.lasting_name = false;
  return FindViewer(proc_, before_->device);
}

std::optional<ShmSample> ShmWatch::LookLast(const ShmTick& tick, std::vector<pid_t> followed) {
  const std::optional<pid_t> viewer = tick.target_alive ? tick.target : ViewerAfterEnd(tick.target);
  if (!viewer) return std::nullopt;
  std::optional<ShmSample> found;
  const uint64_t leaked_before = before_ ? LeakedIn(*before_).segments : 0;
  const absl::Duration end = BootTime() + kTidying;
  // Again while something seems to have been left behind: multiprocessing's resource tracker and torch's manager tidy
  // up when their processes have ended.
  do {
    if (found) absl::SleepFor(kPause);
    absl::StatusOr<ShmLook> look =
        ShmLook::Begin(proc_, {.viewer = *viewer, .first = followed, .most_entries = kMostEntries});
    if (!look.ok()) break;
    look_.emplace(*std::move(look));
    if (!RunLook(kLastLook)) break;
    found = TakeLook();
  } while (!tick.target_alive && LeakedIn(*found).segments > leaked_before && BootTime() < end);
  look_.reset();
  return found;
}

}  // namespace cowprof
