// Events and rows that most tests make by hand. A process's pid is 1000 + its index; index 0 is the target.
#ifndef COWPROF_TESTS_UNIT_BUILDERS_H_
#define COWPROF_TESTS_UNIT_BUILDERS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "model/facts/event.h"
#include "model/facts/sample.h"

namespace cowprof {

inline Event Started(int index, int parent, const std::string& command = "python train.py") {
  return {.index = index,
          .what = ProcessStarted{.id = {1000 + index, 7},
                                 .parent = parent,
                                 .origin = index == 0 ? Origin::kTarget : Origin::kForked,
                                 .command = command}};
}
inline Event Exited(int index, int status = 0, absl::Duration t = absl::ZeroDuration()) {
  return {.t = t, .index = index, .what = ProcessExited{.status = status}};
}
using ByCause = std::map<Cause, uint64_t>;
inline ProcessSample RowByCause(int index, const ByCause& copies) {
  ProcessSample row = {.index = index, .causes = CauseCounts{}};
  uint64_t sum = 0;
  for (const auto& [cause, count] : copies) {
    (*row.causes)[static_cast<int>(cause)] = count;
    sum += count;
  }
  row.counts = {.write_protect_faults = sum + 33, .copies = sum, .zero_upgrades = 0};
  return row;
}

inline ProcessSample RowWithCopies(int index, uint64_t copies) {
  ProcessSample row = {.index = index};
  row.counts.copies = copies;
  return row;
}

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_BUILDERS_H_
