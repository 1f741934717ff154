// Looks for training runs in /proc, at a cost that is bounded whatever the host does: a listing of it a scan, and a
// look only at processes that lived from one scan to the next.
#ifndef COWPROF_WATCH_PROCESS_SCAN_H_
#define COWPROF_WATCH_PROCESS_SCAN_H_

#include <dirent.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "source/procfs.h"
#include "watch/match.h"
#include "watch/roots.h"

namespace cowprof {

struct ScanSettings {
  std::optional<CommandPattern> match;
  pid_t self = 0;                    // of watch: neither it nor what it starts is a root
  absl::flat_hash_set<pid_t> avoid;  // not looked at while they live
};

class ProcessScan {
 public:
  // `looking` is called with the pid before each look, and with 0 after it.
  ProcessScan(ScanSettings settings, std::function<void(pid_t)> looking, ProcFs proc = ProcFs());

  // `now`: of any monotonic clock.
  std::vector<Root> Scan(absl::Duration now);
  // The text that names a process in a message; not to be trusted.
  std::string NameOf(pid_t pid) const { return proc_.ReadCommandLine(pid); }

 private:
  struct Entry {
    uint64_t inode = 0;     // of /proc/PID: a process that takes the pid has another
    uint64_t start_ns = 0;  // of the process; 0: not known, and nothing is lost if it is taken for another
    uint64_t scan = 0;      // the last that saw it
    absl::Duration first, next_look;
    int looks_at_frames = 0;
    std::optional<SeenProcess> seen;  // absent: nothing that matters here
  };
  void List(absl::Duration now);
  uint64_t StartOf(pid_t pid) const;  // 0: not known
  void Look(pid_t pid, absl::Duration now, Entry* entry);
  void LookAtPython(pid_t pid, Entry* entry, SeenProcess* process);
  bool BelowRoot(const SeenProcess& process) const;

  ScanSettings settings_;
  std::function<void(pid_t)> looking_;
  ProcFs proc_;
  // Of watch: sudo, a shell or tmux has the pattern of --match in its own command line.
  const absl::flat_hash_set<ProcessId> ancestors_;
  std::unique_ptr<DIR, int (*)(DIR*)> folder_;
  uint64_t scans_ = 0;
  absl::flat_hash_map<pid_t, Entry> entries_;
  absl::flat_hash_set<pid_t> roots_;  // of the last scan
};

}  // namespace cowprof

#endif  // COWPROF_WATCH_PROCESS_SCAN_H_
