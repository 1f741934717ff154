// Measures what a copy costs on this machine: the "copy tax" is copies times this.
#ifndef COWPROF_SOURCE_COPY_CALIBRATION_H_
#define COWPROF_SOURCE_COPY_CALIBRATION_H_

#include <sys/types.h>

#include <cstdint>

namespace cowprof {

// Measures in a process of its own, which takes some 25 ms, beside what the caller does meanwhile.
class CopyCalibration {
 public:
  explicit CopyCalibration(uint64_t page_bytes);
  ~CopyCalibration();
  CopyCalibration(const CopyCalibration&) = delete;
  CopyCalibration& operator=(const CopyCalibration&) = delete;

  // Waits for the result: nanoseconds of CPU time for one copy-on-write copy of a page, including the fault, the
  // minimum over a few rounds in which a forked child writes to pages that it shares with its parent. 0 if it can't be
  // measured. Call it before probes are attached, which slow copies down.
  double Take();

 private:
  double* told_ = nullptr;  // shared with the process
  pid_t process_ = -1;
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_COPY_CALIBRATION_H_
