// Copies without a page fault exception: the kernel touched the pages for the process by get_user_pages (GUP), as
// mlockall(2), madvise(MADV_POPULATE_WRITE), O_DIRECT and pinned memory do. Probes of exceptions do not see them. Two
// other sources do: /proc/PID/stat, whose faults include those of GUP (mm_account_fault() in mm/memory.c), copies and
// new pages alike; and a sweep, which finds pages that differ from the parent's. Copies are counted as far as both
// agree. Of forked processes that have not called exec, while their parent lives. No I/O.
#ifndef COWPROF_RECORDER_GUP_COPIES_H_
#define COWPROF_RECORDER_GUP_COPIES_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "model/facts/sample.h"

namespace cowprof {

class GupCopies {
 public:
  static constexpr uint64_t kLeast = 256;  // pages that count, and faults worth a sweep: many system calls have a few

  // Takes note of a process at each sample, parents before children. `faults`: of /proc/PID/stat, as of
  // row.counts or before. `parent`: serial of the process whose memory it inherited; 0: none.
  void NoteFaults(uint32_t serial, uint32_t parent, uint64_t faults, const ProcessSample& row);
  // Faults of GUP so far.
  uint64_t FaultsOf(uint32_t serial) const;
  // Adds the copies known so far to the counts and causes of the process's row.
  void AddTo(uint32_t serial, ProcessSample* row) const;
  // Looks for copies in the sweep of the row, to which what was known has been added, and adds what is new.
  void Learn(uint32_t serial, uint32_t parent, ProcessSample* row);
  // The process ended, or has a new address space.
  void Forget(uint32_t serial) { states_.erase(serial); }

 private:
  struct Pages {  // so far, at most
    uint64_t copied = 0, fresh = 0;
    uint64_t anon = 0;  // RssAnon
  };
  struct State {
    uint64_t faults = 0;  // of GUP
    Pages now, before;    // before: as of the sample before
    Pages of_parent;      // before it forked this one
    uint64_t copies = 0;
  };
  static void Add(uint64_t copies, ProcessSample* row);
  static uint64_t ChangedBy(const Pages& then, const Pages& now);

  absl::flat_hash_map<uint32_t, State> states_;  // by serial
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_GUP_COPIES_H_
