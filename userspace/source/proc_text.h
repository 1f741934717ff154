// How /proc spells a process and the host's memory: pure, and total on any text. The only place that knows its fields
// and the unit KiB. Called by procfs.h, which reads the files, and by who has such text already; judges nothing.
#ifndef COWPROF_SOURCE_PROC_TEXT_H_
#define COWPROF_SOURCE_PROC_TEXT_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/sample.h"

namespace cowprof {

// /proc/PID/stat, proc(5). `comm` may hold blanks and parentheses: it ends at the last ')'.
struct ProcStat {
  std::string comm;
  char state = '?';
  pid_t parent = 0;
  uint64_t user_ticks = 0, system_ticks = 0;  // USER_HZ = 100
  uint64_t threads = 0;
  uint64_t start_ticks = 0;
  uint64_t virtual_bytes = 0;
  unsigned flags = 0;   // PF_*; PF_KTHREAD = 0x00200000
  uint64_t faults = 0;  // page faults of all its threads, minor and major, since its fork
  // Both are told only to who may look at its memory, and are 0 for others.
  uint64_t stack_start = 0;
  int exit_status = 0;  // of a zombie, as wait(2) reports it
};
absl::StatusOr<ProcStat> ParseStat(absl::string_view text);

// /proc/PID/status; each field is absent where this kernel or process (a kernel thread, a zombie) has none.
struct ProcStatus {
  Count anon_bytes, file_bytes, shmem_bytes, swap_bytes;  // RssAnon, RssFile, RssShmem, VmSwap
  std::vector<pid_t> namespace_pids;                      // NSpid, outermost first
  Count real_uid;
};
ProcStatus ParseStatus(absl::string_view text);

// /proc/PID/smaps_rollup; `t` and `cost` are left for the caller. InvalidArgument if there is no "Rss:" line.
absl::StatusOr<RollupFigures> ParseRollup(absl::string_view text);

// One line of /proc/PID/maps.
struct Mapping {
  uint64_t begin = 0, end = 0;  // bytes; end is exclusive
  bool readable = false, writable = false, executable = false, shared = false;
  uint64_t offset = 0, device = 0, inode = 0;  // device as stat(2) has it
  std::string name;  // path, "[heap]", "[stack]", "" for anonymous memory; " (deleted)" is kept
};
// Lines that are not of the form are skipped.
std::vector<Mapping> ParseMaps(absl::string_view text);

// /proc/PID/cmdline: arguments joined by blanks, control characters and bad UTF-8 left as they are.
inline constexpr size_t kMaxCommandBytes = 4000;  // the target may have any number of megabytes of arguments
std::string JoinCommandLine(absl::string_view nul_separated);

// /proc/PID/limits: the soft limit of a row such as "Max open files"; nullopt: unlimited or no such row.
Count ParseSoftLimit(absl::string_view text, absl::string_view row);

// /proc/meminfo: what the host has, and what it could still give out without killing anybody.
struct HostMemory {
  Count total_bytes, available_bytes, swap_total_bytes, swap_free_bytes;
};
HostMemory ParseHostMemory(absl::string_view text);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PROC_TEXT_H_
