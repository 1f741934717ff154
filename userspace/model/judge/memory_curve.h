// The private memory of a rank's workers over its recording, in a few points that keep every peak. Pure.
#ifndef COWPROF_MODEL_JUDGE_MEMORY_CURVE_H_
#define COWPROF_MODEL_JUDGE_MEMORY_CURVE_H_

#include <vector>

#include "absl/time/time.h"
#include "model/facts/run_model.h"

namespace cowprof {

class MemoryCurve {
 public:
  // The highest value of a stretch of samples, when it was first reached.
  struct Point {
    absl::Duration t;
    Count bytes;  // absent: not known in the whole stretch
  };
  static constexpr size_t kMost = 512;  // points; beyond that, neighbours are merged

  // `run` already includes the sample.
  void Add(const RunModel& run);
  void Add(Point sample);
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
  uint64_t samples_per_point_ = 1, samples_in_last_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_MEMORY_CURVE_H_
