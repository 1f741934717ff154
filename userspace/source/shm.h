// One look at shared memory: the file system behind a process's /dev/shm, the names in it, and what processes map or
// hold open. Proceeds in small steps, so that no tick is late on a large host. Opens none of the files that it lists
// and follows no link; judges nothing.
#ifndef COWPROF_SOURCE_SHM_H_
#define COWPROF_SOURCE_SHM_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "model/facts/sample.h"
#include "source/procfs.h"

namespace cowprof {

struct ShmLookPlan {
  pid_t viewer = 0;                 // the process whose /dev/shm to look at; 0: the caller
  std::vector<pid_t> first;         // look at these processes first
  bool whole = true;                // then at all other processes
  uint64_t most_entries = 100'000;  // of the folder and its subfolders
  bool foreign = false;  // include memfds and System V segments of the other processes; files are always included
};

class ShmLook {
 public:
  // Fails where /dev/shm is not a tmpfs: in some containers it is a folder of a disk. The message says what failed.
  static absl::StatusOr<ShmLook> Begin(const ProcFs& proc, const ShmLookPlan& plan);
  ShmLook(ShmLook&&);
  ~ShmLook();

  // Continues for about `budget` of CPU time; true once everything was looked at.
  bool Run(absl::Duration budget);
  // Call once, after Run() returned true. Segments are in no particular order.
  ShmSample Take();
  const std::vector<pid_t>& living() const;  // processes that had memory of their own
  // True if the name of `segment` still refers to it.
  bool IsStillThere(const ShmSegment& segment) const;

 private:
  struct State;
  explicit ShmLook(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// When a name was last added or removed in the /dev/shm of `viewer`; InfinitePast if it has none. Cheap.
absl::Time LastNameChange(const ProcFs& proc, pid_t viewer);
// A live process whose /dev/shm is on `device`; 0: the caller's is; nullopt: none.
std::optional<pid_t> FindViewer(const ProcFs& proc, uint64_t device);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_SHM_H_
