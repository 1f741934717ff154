// Scanners that wait in a look that does not return, until they have ended, and the processes that they looked at.
#ifndef COWPROF_WATCH_STUCK_SCANNERS_H_
#define COWPROF_WATCH_STUCK_SCANNERS_H_

#include <sys/types.h>

#include <cstddef>
#include <vector>

namespace cowprof {

inline constexpr size_t kMostStuckScanners = 16;

class StuckScanners {
 public:
  // `scanner`: a child of this process. Asks it to end, which it may do much later.
  void Add(pid_t scanner, pid_t target);
  // Reaps the scanners and forgets the targets that have ended. Call every second or so.
  void Tidy();
  // No other may be started, as it could get stuck as well.
  bool full() const { return scanners_.size() >= kMostStuckScanners; }
  // Not to be looked at again, whatever became of the scanner.
  const std::vector<pid_t>& targets() const { return targets_; }

 private:
  std::vector<pid_t> scanners_, targets_;
};

}  // namespace cowprof

#endif  // COWPROF_WATCH_STUCK_SCANNERS_H_
