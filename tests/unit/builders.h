// Events and rows that most tests make by hand. A process's pid is 1000 + its index; index 0 is the target.
#ifndef COWPROF_TESTS_UNIT_BUILDERS_H_
#define COWPROF_TESTS_UNIT_BUILDERS_H_

#include <cstdint>
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
inline ProcessSample RowWithCopies(int index, uint64_t copies) {
  ProcessSample row = {.index = index};
  row.counts.copies = copies;
  return row;
}

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_BUILDERS_H_
