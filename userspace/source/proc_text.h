// Parses what /proc says about a process and the host's memory. Pure, and accepts any text. The only place that knows
// its fields and the unit KiB.
#ifndef COWPROF_SOURCE_PROC_TEXT_H_
#define COWPROF_SOURCE_PROC_TEXT_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/facts/sample.h"
#include "model/saturating.h"

namespace cowprof {

// /proc/PID/stat, proc(5). `comm` may hold blanks and parentheses: it ends at the last ')'.
struct ProcStat {
  std::string comm;
  char state = '?';
  pid_t parent = 0;
  uint64_t user_ticks = 0, system_ticks = 0;
  uint64_t threads = 0;
  uint64_t start_ticks = 0;
  uint64_t virtual_bytes = 0;
  unsigned flags = 0;   // task->flags; use the functions below
  uint64_t faults = 0;  // page faults of all threads, minor and major, since the fork
  // Only shown to those who may read its memory; otherwise 0.
  uint64_t stack_start = 0;
  uint64_t environment_start = 0, environment_end = 0;  // what it was started with
  int exit_status = 0;                                  // of a zombie, as wait(2) reports it

  uint64_t start_ns() const { return start_ticks * kNsPerTick; }
  // PF_* of include/linux/sched.h.
  bool is_exiting() const { return (flags & 0x4) != 0; }       // PF_EXITING, set before the memory is given back
  bool has_not_execed() const { return (flags & 0x40) != 0; }  // PF_FORKNOEXEC: forked, and no exec since
  bool is_kernel_thread() const { return (flags & 0x00200000) != 0; }  // PF_KTHREAD
};
absl::StatusOr<ProcStat> ParseStat(absl::string_view text);

// /proc/PID/status; a field is absent if this kernel or process (a kernel thread, a zombie) does not have it.
struct ProcStatus {
  Count anon_bytes, file_bytes, shmem_bytes, swap_bytes;  // RssAnon, RssFile, RssShmem, VmSwap
  pid_t process = 0;                                      // Tgid: another's if this is a thread; 0: not said
  std::vector<pid_t> namespace_pids;                      // NSpid, outermost first

  // In RAM and in swap: a fork shares both.
  Count anonymous_bytes() const {
    return anon_bytes ? Count(SaturatingAdd(*anon_bytes, swap_bytes.value_or(0))) : std::nullopt;
  }
};
ProcStatus ParseStatus(absl::string_view text);

// /proc/PID/smaps_rollup, or smaps, which it adds up: only there it can leave out shared mappings, whose pages the
// kernel calls private as long as one process maps them. The caller fills in `t` and `cost`. InvalidArgument if there
// is no "Rss:" line.
absl::StatusOr<RollupFigures> ParseRollup(absl::string_view text);

// One line of /proc/PID/maps.
struct Mapping {
  uint64_t begin = 0, end = 0;  // bytes; end is exclusive
  bool readable = false, writable = false, executable = false, shared = false;
  uint64_t offset = 0, device = 0, inode = 0;  // device as in stat(2)
  std::string name;  // path, "[heap]", "[stack]", "" for anonymous memory; may end in " (deleted)"
};
// Skips malformed lines.
std::vector<Mapping> ParseMaps(absl::string_view text);

// /proc/PID/cmdline: arguments joined by spaces; control characters and invalid UTF-8 are kept.
inline constexpr size_t kMaxCommandBytes = 4000;  // the target may have megabytes of arguments
std::string JoinCommandLine(absl::string_view nul_separated);

// /proc/PID/limits: the soft limit of a row such as "Max open files"; nullopt: unlimited or no such row.
Count ParseSoftLimit(absl::string_view text, absl::string_view row);

// /proc/meminfo: what the host has, and what it can still provide without killing anything.
struct HostMemory {
  Count total_bytes, available_bytes, swap_total_bytes, swap_free_bytes, commit_limit_bytes, committed_bytes;
};
HostMemory ParseHostMemory(absl::string_view text);

// /proc/swaps: the swap on zram devices, which keep pages in RAM, compressed. SwapTotal and SwapFree count their size
// before compression. Bytes; `free_bytes`: not in use.
struct ZramSwap {
  uint64_t total_bytes = 0, free_bytes = 0;
};
ZramSwap ParseZramSwap(absl::string_view text);

// /proc/spl/kstat/zfs/arcstats: bytes of OpenZFS's cache that it gives back when memory is short, `size` beyond
// `c_min`. The kernel's MemAvailable does not have them.
uint64_t ParseShrinkableArc(absl::string_view text);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_PROC_TEXT_H_
