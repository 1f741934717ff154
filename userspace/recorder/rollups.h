// Decides when to read smaps_rollup, which is exact but costly, and of which process.
#ifndef COWPROF_RECORDER_ROLLUPS_H_
#define COWPROF_RECORDER_ROLLUPS_H_

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "model/facts/sample.h"
#include "recorder/processes.h"
#include "source/procfs.h"

namespace cowprof {

class Rollups {
 public:
  explicit Rollups(ProcFs proc) : proc_(std::move(proc)) {}

  // Fills the rollups of the sample's processes that are due, as many as the tick's budget allows; `last`: all are due.
  void Read(const Processes& processes, absl::Duration interval, bool last, Sample* sample);
  void Forget(uint32_t serial) { next_.erase(serial); }

 private:
  ProcFs proc_;
  absl::flat_hash_map<uint32_t, absl::Duration> next_;  // by serial
  double ns_per_page_ = 60;  // 55 ms for 4 GiB of 4 KiB pages on a 2.5 GHz virtual CPU; then as measured
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_ROLLUPS_H_
