#include "model/judge/memory_curve.h"

#include "model/facts/ended_aggregate.h"

namespace cowprof {
namespace {

void Merge(const MemoryCurve::Point& later, MemoryCurve::Point* point) {
  if (later.bytes && (!point->bytes || *later.bytes > *point->bytes)) *point = later;
}

}  // namespace

void MemoryCurve::Add(const RunModel& run) {
  uint64_t bytes = 0;
  bool living = false, known = false;
  ForEachLately(run, [&](const ProcessModel& process) {
    if (!process.is_worker() || process.ended) return;
    living = true;
    known |= process.private_bytes.has_value();
    bytes += process.private_bytes.value_or(0);
  });
  // At the peak a worker may have just ended.
  if (run.workers_peak.bytes > 0 && run.workers_peak.t == run.t) return Add({run.t, run.workers_peak.bytes});
  Add({run.t, known || !living ? Count(bytes) : std::nullopt});
}

void MemoryCurve::Add(Point sample) {
  if (!points_.empty() && samples_in_last_ < samples_per_point_) {
    Merge(sample, &points_.back());
    ++samples_in_last_;
    return;
  }
  if (points_.size() == kMost) {
    for (size_t i = 0; i < kMost / 2; ++i) {
      points_[i] = points_[2 * i];
      Merge(points_[2 * i + 1], &points_[i]);
    }
    points_.resize(kMost / 2);
    samples_per_point_ *= 2;
  }
  points_.push_back(sample);
  samples_in_last_ = 1;
}

}  // namespace cowprof
