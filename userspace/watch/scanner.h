// The process that looks for training runs: without the rights to record, and replaced when a stranger makes it hang.
#ifndef COWPROF_WATCH_SCANNER_H_
#define COWPROF_WATCH_SCANNER_H_

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "posix/fd.h"
#include "watch/match.h"
#include "watch/roots.h"
#include "watch/stuck_scanners.h"

namespace cowprof {

inline constexpr size_t kMostRoots = 1024;  // the youngest beyond it are not known

class Scanner {
 public:
  struct Settings {
    std::optional<CommandPattern> match;
    bool quiet = false;  // otherwise it says whom it found
  };
  explicit Scanner(Settings settings);
  ~Scanner();  // the process ends by itself

  absl::Status Start();
  int wake_fd() const { return socket_.fd(); }  // below 0: none runs

  enum class News { kNone, kRoots, kGone };
  // kGone: the process has ended, and why.
  News Read(std::vector<Root>* roots, std::string* reason);
  // Call every second or so. Starts another process if a look of this one does not return, which leaves its target out;
  // while too many are stuck, once one of them has ended. Returns a sentence for the user, or "".
  std::string Tick(absl::Duration now);

 private:
  struct Shared {
    std::atomic<pid_t> looking{0};
    std::atomic<int64_t> since_ns{0};
  };
  void Leave();  // forgets the process

  Settings settings_;
  Shared* shared_ = nullptr;  // with the process
  Fd socket_;
  pid_t pid_ = 0;  // 0: none runs
  StuckScanners stuck_;
};

}  // namespace cowprof

#endif  // COWPROF_WATCH_SCANNER_H_
