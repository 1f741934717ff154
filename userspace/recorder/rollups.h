// Decides when to read smaps_rollup, which is exact but costly, and of which process.
#ifndef COWPROF_RECORDER_ROLLUPS_H_
#define COWPROF_RECORDER_ROLLUPS_H_

#include <cstdint>
#include <optional>
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
  // Fills the rollup of one more, right after a sweep of it: their difference is its private pages of files. Not where
  // that would hold its mmap_lock for long, and not more often than a small share of a CPU allows.
  void ReadNow(const LivingProcess& process, absl::Duration t, ProcessSample* row);
  void Forget(uint32_t serial) { states_.erase(serial); }

 private:
  struct State {
    absl::Duration next, interval;  // between the last read and the next one
  };
  // Returns the CPU time that it took.
  std::optional<absl::Duration> ReadOne(const LivingProcess& process, absl::Duration t, bool last, ProcessSample* row);

  ProcFs proc_;
  absl::flat_hash_map<uint32_t, State> states_;  // by serial
  absl::Duration next_now_;                      // ReadNow()
  double ns_per_page_ = 60;  // 55 ms for 4 GiB of 4 KiB pages on a 2.5 GHz virtual CPU; then as measured
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_ROLLUPS_H_
