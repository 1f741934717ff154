// The recorders that watch has started: one process a root, so that the end of one harms no other. Each has a place,
// and a pipe whose end of file ends it.
#ifndef COWPROF_WATCH_RECORDERS_H_
#define COWPROF_WATCH_RECORDERS_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "posix/fd.h"
#include "watch/roots.h"

namespace cowprof {

// ---- What to start next; pure ----

struct Attempts {
  int failed = 0;        // one after the other
  absl::Duration again;  // not before; infinite: never
  // Its recorder found no process, or one that it may not look at: from then on the latter, if it is still listed.
  absl::Duration refused_from = absl::InfiniteDuration();
  bool told = false;              // that it is refused
  std::optional<uint32_t> place;  // of its last recorder
};
// After the recorder of a root has ended. `status`: its exit status; absent: a signal ended it. One that lived for long
// is the first to fail.
Attempts AfterEnd(const Attempts& before, std::optional<int> status, absl::Duration now,
                  absl::Duration lived = absl::ZeroDuration());

// The root to record next: of the user with the fewest recorders, the oldest. nullptr: none is waiting.
const Root* NextRoot(const std::vector<Root>& roots, const std::vector<Root>& recorded,
                     const absl::flat_hash_map<ProcessId, Attempts>& attempts, absl::Duration now);

// `before`: of the last recorder of its root, whose metrics would still say that it records: taken again if it is free.
// Otherwise the free one after `last`, so that the metrics of a recorder that has ended stay for a while.
uint32_t PlaceFor(std::optional<uint32_t> before, uint32_t last, const std::vector<uint32_t>& taken, uint32_t places);

// ---- The processes ----

class Recorders {
 public:
  struct Settings {
    size_t at_most = 16;
    std::string folder;
    std::vector<std::string> options;  // of recording, passed on
    sigset_t signals;                  // mask of the new processes
  };
  // `metrics_for` makes the socket for the metrics of the recorder in a place, or none.
  Recorders(Settings settings, std::function<Fd(uint32_t)> metrics_for);

  // Takes what has ended, and starts at most one. Returns sentences for the user.
  std::vector<std::string> Update(const std::vector<Root>& roots, absl::Duration now);
  // Asks all to finish their recordings, and waits for that. Returns how many have not by then.
  size_t StopAll(absl::Duration patience);

  size_t running() const { return running_.size(); }
  size_t left_out() const { return left_out_; }  // roots that none records
  uint64_t started() const { return started_; }
  uint64_t failed() const { return failed_; }

 private:
  struct Running {
    Root root;
    absl::Duration started;
    pid_t pid = 0;
    uint32_t place = 0;
    Fd lifeline;
  };
  std::string Reap(const Running& recorder, int status, absl::Duration now);
  std::string Start(const Root& root, absl::Duration now);
  uint32_t TakePlace(const ProcessId& root);

  Settings settings_;
  std::function<Fd(uint32_t)> metrics_for_;
  std::vector<Running> running_;
  absl::flat_hash_map<ProcessId, Attempts> attempts_;
  uint32_t last_place_ = UINT32_MAX;
  size_t left_out_ = 0, told_left_out_ = 0;
  uint64_t started_ = 0, failed_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_WATCH_RECORDERS_H_
