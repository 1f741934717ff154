// Tracks how one figure climbs towards its limit: since when, how fast lately, whether it levels off, and how high it
// stood before it was given back. Pure; the alerts feed it several times a second. Judges nothing.
#ifndef COWPROF_MODEL_ESTIMATE_USAGE_RAMP_H_
#define COWPROF_MODEL_ESTIMATE_USAGE_RAMP_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace cowprof {

class UsageRamp {
 public:
  // A climb ends, and another begins, when the figure falls to its start, gives back a quarter of what it gained, or
  // stands still for 3 s and for a quarter of the time that it took.
  void Add(absl::Duration t, uint64_t value);
  // Drops what was gained before `t`: it belongs to something else.
  void StartAt(absl::Duration t);

  absl::Duration began() const { return points_.empty() ? absl::ZeroDuration() : points_.front().t; }
  double base() const { return points_.empty() ? 0 : points_.front().value; }
  double value() const { return points_.empty() ? 0 : points_.back().value; }
  double gained() const { return value() - base(); }
  // The highest value reached before memory was given back: a climb to there was survived once.
  double earlier_peak() const { return earlier_peak_; }
  // Units per second over the last second, or over the last quarter of a long climb; 0 at its very beginning.
  double rate() const;
  // Whether it went on in the last 0.3 s, or since the last look before if that is longer ago, at a quarter of that
  // rate or more.
  bool goes_on() const;
  // What it will still gain if it goes on slowing down as now; infinite if it does not slow down.
  double still_to_come() const;

 private:
  struct Point {
    absl::Duration t;
    double value = 0;
  };
  absl::Duration length() const { return points_.back().t - points_.front().t; }
  double MeanRate(absl::Duration from, absl::Duration to) const;

  std::vector<Point> points_;  // of this climb, in order of time
  double peak_ = 0, earlier_peak_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_USAGE_RAMP_H_
