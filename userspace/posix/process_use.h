// What a process has used of CPU and memory so far, from an open /proc/PID/stat, which can be read again and again
// without the right to open files.
#ifndef COWPROF_POSIX_PROCESS_USE_H_
#define COWPROF_POSIX_PROCESS_USE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "posix/fd.h"

namespace cowprof {

struct ProcessUse {
  double cpu_seconds = 0;
  uint64_t resident_bytes = 0;
};

// `pid`: a number, or "self".
Fd OpenStat(const std::string& pid);
// nullopt: the process has ended, or `stat` is not open.
std::optional<ProcessUse> ReadUse(const Fd& stat);

}  // namespace cowprof

#endif  // COWPROF_POSIX_PROCESS_USE_H_
