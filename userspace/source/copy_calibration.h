// Measures what a copy costs on this machine: the "copy tax" is copies times this.
#ifndef COWPROF_SOURCE_COPY_CALIBRATION_H_
#define COWPROF_SOURCE_COPY_CALIBRATION_H_

#include <cstdint>

namespace cowprof {

// Nanoseconds of CPU time for one copy-on-write copy of a page, including the fault: the minimum over a few rounds in
// which a forked child writes to pages that it shares with us. Takes about 10 ms; call it before probes are attached,
// which slow copies down. 0 if it can't be measured.
double CalibrateCopy(uint64_t page_bytes);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_COPY_CALIBRATION_H_
