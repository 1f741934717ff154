// Bounds the CPU time of looks, per tick and in the long run.
#include "recorder/shm_watch.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "model/facts/shm.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

// Shares of one core, in the long run and during a look, and the longest time that a look may take of one tick.
constexpr double kLongShare = 0.005, kTickShare = 0.02;
// As long as most of the mount is free, and a SIGBUS far.
constexpr double kLongShareWithRoom = 0.001;
// While little comes and goes, as names of batches do, looks wait this many times as long, up to so much longer: other
// jobs of a large host leave segments behind as well.
constexpr int kCalmFactor = 4;
constexpr absl::Duration kLongestCalm = absl::Minutes(10);
constexpr uint64_t kLittle = 64 << 20;  // bytes
constexpr absl::Duration kLongestStep = absl::Milliseconds(20);
constexpr int kTicksBetweenLooks = 10;
// Per look: entries of the folder to read, segments to compare the next look with, segments to report.
constexpr uint64_t kMostEntries = 10'000;
constexpr size_t kMostCompared = 2000, kMostTold = 200;
constexpr absl::Duration kLastLook = absl::Milliseconds(300);
// How long those that end with the target may take, and the cleanup after them.
constexpr absl::Duration kEnding = absl::Seconds(1), kTidying = absl::Milliseconds(500);
constexpr absl::Duration kPause = absl::Milliseconds(20);

// Segments that end with their processes but still have one: where the whole run was killed, those are about to end,
// too, and leave them behind.
bool HasOwned(const ShmSample& sample) {
  return std::any_of(sample.segments.begin(), sample.segments.end(), [&](const ShmSegment& segment) {
    return IsOnMount(sample, segment) && !segment.deleted && segment.kind != SegmentKind::kSemaphore &&
           EndsWithItsProcesses(segment.kind) && OwnershipOf(sample, segment) == Ownership::kOwned;
  });
}

double LongShareOf(const LimitSample* mount) {
  return mount != nullptr && mount->limit && mount->used < *mount->limit / 2 ? kLongShareWithRoom : kLongShare;
}

bool HasLeftovers(const ShmSample& sample) { return LeakedIn(sample).segments > 0; }

}  // namespace

// Also checks usage: removing a name frees nothing while the file is still in use.
void ShmWatch::NoteChanges(const ShmTick& tick) {
  const absl::Time names = LastNameChange(proc_, tick.target);
  processes_changed_ |= tick.processes_changed;
  changed_ |= tick.processes_changed || std::exchange(names_changed_, names) != names ||
              (tick.mount != nullptr && Count(tick.mount->used) != whole_.used_then);
  // What was freed since may be filled again.
  if (tick.mount != nullptr && quick_.used_then) quick_.used_then = std::min(*quick_.used_then, tick.mount->used);
}

// A leftover is known as one only when a second look finds it again.
bool ShmWatch::IsWholeDue(const ShmTick& tick) const {
  if (!changed_ || tick.t < whole_.next) return false;
  if (processes_changed_ || tick.mount == nullptr || !tick.mount->limit || !whole_.used_then) return true;
  const uint64_t then = *whole_.used_then, now = tick.mount->used, limit = *tick.mount->limit;
  const bool calm = std::max(then, now) - std::min(then, now) < std::min(kLittle, limit / 100) && now < limit / 8 &&
                    before_ && !HasLeftovers(*before_);
  return !calm || tick.t >= whole_.next + std::min((kCalmFactor - 1) * whole_.cost / kLongShareWithRoom, kLongestCalm);
}

// At the start, and whenever an eighth of the capacity was filled since the last one or the least usage since then, to
// see the cause of a SIGBUS.
bool ShmWatch::IsQuickDue(const ShmTick& tick) const {
  if (device_ == 0) return tick.t >= quick_.next;
  if (tick.mount == nullptr || !tick.mount->limit || tick.t < quick_.next) return false;
  const uint64_t then = quick_.used_then.value_or(0), now = tick.mount->used;
  return now > then && now - then >= *tick.mount->limit / 8;
}

// If it can't begin, the next tick tries again: what changed is still unseen.
void ShmWatch::Begin(const ShmTick& tick, bool whole, std::vector<pid_t> followed) {
  absl::StatusOr<ShmLook> look = ShmLook::Begin(
      proc_, {.viewer = tick.target, .first = std::move(followed), .whole = whole, .most_entries = kMostEntries});
  if (!look.ok()) return;
  Look& begun = whole ? whole_ : quick_;
  begun.look.emplace(*std::move(look));
  begun.used_then = tick.mount != nullptr ? Count(tick.mount->used) : std::nullopt;
  // A leftover counts only if the next look finds it again.
  if (whole) {
    changed_ = before_ && HasLeftovers(*before_);
    processes_changed_ = false;
  }
  begun.cost = absl::ZeroDuration();
  begun.next = tick.t + kTicksBetweenLooks * tick.interval;
}

bool ShmWatch::RunLook(absl::Duration budget, Look* look) {
  const absl::Duration before = ReadClock(CLOCK_THREAD_CPUTIME_ID);
  const bool done = look->look->Run(budget);
  const absl::Duration cost = ReadClock(CLOCK_THREAD_CPUTIME_ID) - before;
  look->cost += cost;
  cost_ += cost;
  return done;
}

ShmSample ShmWatch::Take(Look* look) {
  const std::vector<pid_t> living = look->look->living();
  ShmSample sample = look->look->Take();
  look->look.reset();
  device_ = sample.device;
  CompareLooks(before_.value_or(ShmSample{}), living, &sample);
  KeepLargest(kMostCompared, &sample);
  if (sample.whole) before_ = sample;
  KeepLargest(kMostTold, &sample);
  return sample;
}

std::optional<ShmSample> ShmWatch::GoOn(const ShmTick& tick, Look* look) {
  const bool first = !before_;
  if (!RunLook(first ? kLongestStep : std::min(kLongestStep, kTickShare * tick.interval), look)) return std::nullopt;
  const bool whole = look == &whole_;
  look->next = tick.t + (whole ? std::max(kTicksBetweenLooks * tick.interval, look->cost / LongShareOf(tick.mount))
                               : std::max(2 * tick.interval, look->cost / kTickShare));
  ShmSample sample = Take(look);
  changed_ |= whole && HasLeftovers(sample);
  return sample;
}

// ---- The last look ----

// The target's end was reported, but it may still have its memory. Where the whole run was killed, so may its workers,
// and only what they leave behind when they have ended is a leak. They may as well live on.
void ShmWatch::AwaitEnds(pid_t target, std::vector<pid_t> followed) {
  if (std::exchange(awaited_, true)) return;
  followed.push_back(target);
  const auto is_going = [&](pid_t pid) {
    const absl::StatusOr<ProcStat> stat = proc_.ReadStat(pid);
    return stat.ok() && stat->state != 'Z';
  };
  const absl::Duration end = BootTime() + kEnding;
  while (std::any_of(followed.begin(), followed.end(), is_going) && BootTime() < end) absl::SleepFor(kPause);
}

// The target's view is gone, but another process or cowprof itself may see the same mount. If none does, the mount is
// gone as well.
std::optional<pid_t> ShmWatch::ViewerAfterEnd(pid_t target, std::vector<pid_t> followed) {
  AwaitEnds(target, std::move(followed));
  if (device_ == 0) return std::nullopt;
  // Names that the target's tracker removes while workers are still ending are not lost names.
  if (before_) {
    for (ShmSegment& segment : before_->segments) segment.lasting_name = false;
  }
  return FindViewer(proc_, device_);
}

std::optional<ShmSample> ShmWatch::LookOnce(const ShmLookPlan& plan) {
  Look once;
  absl::StatusOr<ShmLook> look = ShmLook::Begin(proc_, plan);
  if (!look.ok()) return std::nullopt;
  once.look.emplace(*std::move(look));
  if (!RunLook(kLastLook, &once)) return std::nullopt;
  return Take(&once);
}

std::optional<ShmSample> ShmWatch::LookLast(const ShmTick& tick, std::vector<pid_t> followed) {
  const std::optional<pid_t> viewer = tick.target_alive ? tick.target : ViewerAfterEnd(tick.target, followed);
  if (!viewer) return std::nullopt;
  ShmLookPlan plan = {.viewer = *viewer, .first = std::move(followed), .most_entries = kMostEntries};
  const uint64_t leaked_before = before_ ? LeakedIn(*before_).segments : 0;
  const absl::Duration end = BootTime() + kTidying;
  std::optional<ShmSample> found = LookOnce(plan);
  // Look again while something seems to be left behind, or may soon be: multiprocessing's resource tracker and torch's
  // manager clean up after their processes have ended, and processes that were killed take a while to end.
  const auto unsettled = [&] { return LeakedIn(*found).segments > leaked_before || HasOwned(*found); };
  while (!tick.target_alive && found && unsettled() && BootTime() < end) {
    absl::SleepFor(kPause);
    found = LookOnce(plan);
  }
  if (found) return found;
  plan.whole = false;  // the host is too large for a whole look now
  return LookOnce(plan);
}

}  // namespace cowprof
