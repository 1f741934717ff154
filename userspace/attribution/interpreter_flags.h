// A flag of running programs: whether Python's collector is on. Decides how often to read each process.
#ifndef COWPROF_ATTRIBUTION_INTERPRETER_FLAGS_H_
#define COWPROF_ATTRIBUTION_INTERPRETER_FLAGS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "attribution/programs.h"
#include "model/facts/sample.h"
#include "source/fault_source.h"

namespace cowprof {

class InterpreterFlags {
 public:
  explicit InterpreterFlags(const Programs* programs) : programs_(programs) {}

  // Fills the flag of the sample's processes as it was last read. Reads those that are due.
  void Read(const std::vector<FollowedProcess>& processes, absl::Duration now, Sample* sample);
  // These processes have ended.
  void Forget(const absl::flat_hash_set<uint32_t>& serials);

 private:
  struct Flags {
    uint32_t image = 0;                // of the program that they were read from
    std::optional<bool> collector_on;  // as last read
    std::optional<absl::Duration> first_look;
    absl::Duration next_look;
  };

  const Programs* programs_;
  absl::flat_hash_map<uint32_t, Flags> flags_;  // by serial
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_INTERPRETER_FLAGS_H_
