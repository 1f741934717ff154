// The process that looks for trainings: without the rights to record, and replaced when a stranger makes it hang.
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
  int wake_fd() const { return socket_.fd(); }

  enum class News { kNone, kRoots, kGone };
  // kGone: the process has ended, and why.
  News Read(std::vector<Root>* roots, std::string* reason);
  // A sentence if a look does not return; then another process has been started, which leaves that one out.
  std::string ReplaceIfStuck(absl::Duration now);

 private:
  struct Shared {
    std::atomic<pid_t> looking{0};
    std::atomic<int64_t> since_ns{0};
  };
  Settings settings_;
  Shared* shared_ = nullptr;  // with the process
  Fd socket_;
  pid_t pid_ = 0;
  std::vector<pid_t> avoid_;
};

}  // namespace cowprof

#endif  // COWPROF_WATCH_SCANNER_H_
