// Tells start-up from a trend. A program that has just begun imports its modules and loads its data, and a forked
// worker sets itself up: that memory grows fast, and ends. Pure.
#ifndef COWPROF_MODEL_ESTIMATE_START_UP_H_
#define COWPROF_MODEL_ESTIMATE_START_UP_H_

#include <cstdint>
#include <map>
#include <optional>

#include "absl/time/time.h"
#include "model/facts/run_model.h"

namespace cowprof {

class StartUp {
 public:
  // Call at each tick, when `model` has the sample. Returns the time at which the target's loading ended, if it is
  // known now and was not before: that of the first fork of a worker or, of an attached target, after it has stood
  // still.
  std::optional<absl::Duration> Learn(const RunModel& model);

  // Whether the target has had no worker yet. An attached one counts as loaded, too, once it has stood still for a
  // while.
  bool target_loads() const { return loads_; }
  // The same, and it is younger than a minute.
  bool target_begins() const { return begins_; }
  // Whether this program began less than a minute ago: the target as above, or a process that called exec, forked no
  // worker yet, and does not serve batches yet.
  bool begins(const ProcessModel& process, const RunModel& model) const;

  // What living processes took while they started, of new anonymous memory and (the target only) of shared memory.
  // Counts while they start, and stays as it is afterwards. Bytes.
  double anonymous_bytes() const { return anonymous_bytes_; }
  double shared_bytes() const { return shared_bytes_; }
  // Of the former, that of processes other than workers.
  double outside_bytes() const { return outside_bytes_; }

 private:
  struct Taken {
    double anonymous_bytes = 0, shared_bytes = 0;
  };
  void LearnTaken(const RunModel& model);

  bool loads_ = true, begins_ = false, workers_ = false;
  Count target_pages_;  // of anonymous memory, when it last rose
  absl::Duration rose_;
  std::map<int, Taken> taken_;  // by process index; of living processes
  double anonymous_bytes_ = 0, shared_bytes_ = 0, outside_bytes_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_START_UP_H_
