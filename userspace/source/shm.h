// One look at shared memory: the file system behind a process's /dev/shm, what has a name there, and what processes map
// or hold open of it. It is made piece by piece, so that no tick waits for a large host. Called by the watch and by
// `cowprof shm`. Opens no file that it lists, follows no link; judges nothing.
#ifndef COWPROF_SOURCE_SHM_H_
#define COWPROF_SOURCE_SHM_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "model/sample.h"
#include "source/procfs.h"

namespace cowprof {

struct ShmLookPlan {
  pid_t viewer = 0;                 // whose /dev/shm; 0: the caller's own
  std::vector<pid_t> first;         // looked at first
  bool whole = true;                // and then all other processes
  uint64_t most_entries = 100'000;  // of the folder, and of those in it
  bool foreign = false;  // memfds and System V segments of those, too; files of the mount are told in any case
};

class ShmLook {
 public:
  // The message says what could not be opened and why.
  static absl::StatusOr<ShmLook> Begin(const ProcFs& proc, const ShmLookPlan& plan);
  ShmLook(ShmLook&&);
  ~ShmLook();

  // Goes on for about `budget` of CPU time; true when all was looked at.
  bool Run(absl::Duration budget);
  // After Run() said true, once. Segments in no particular order.
  ShmSample Take();
  const std::vector<pid_t>& living() const;  // processes that had memory of their own
  // True if the name of `segment` still stands for it.
  bool IsStillThere(const ShmSegment& segment) const;

 private:
  struct State;
  explicit ShmLook(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// When a name came or went in the /dev/shm that `viewer` sees: cheap enough for each tick. InfinitePast if it has none.
absl::Time LastNameChange(const ProcFs& proc, pid_t viewer);
// A living process whose /dev/shm is on `device`; 0: the caller's own is; nullopt: nobody's.
std::optional<pid_t> FindViewer(const ProcFs& proc, uint64_t device);
// `pid` and all that descends from it.
std::vector<pid_t> FamilyOf(const ProcFs& proc, pid_t pid);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_SHM_H_
