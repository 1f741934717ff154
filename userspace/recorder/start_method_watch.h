// Decides when the scout looks at what workers would be sent: at the attach, at forks of workers, and when a helper
// process of multiprocessing shows that spawn or forkserver is about to be used. A plain Process says nothing of a
// DataLoader that comes later, nor a loader for validation of that for training, so it looks again, a few times. Puts
// what it reports into samples.
#ifndef COWPROF_RECORDER_START_METHOD_WATCH_H_
#define COWPROF_RECORDER_START_METHOD_WATCH_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "model/facts/sample.h"
#include "recorder/processes.h"
#include "recorder/start_method_scout.h"
#include "source/fault_source.h"

namespace cowprof {

class StartMethodWatch {
 public:
  explicit StartMethodWatch(std::unique_ptr<StartMethodScout> scout) : scout_(std::move(scout)) {}

  // Call once per tick, when the sample has its events but for ends, and those that end still are in `processes`.
  void Run(const std::vector<FollowedProcess>& followed, const Processes& processes, Sample* sample);

 private:
  void Ask(const Event& event, const LivingProcess& process, const Processes& processes);
  void LookAt(int parent, const ProcessId& worker, bool pickling, absl::Duration t);
  void LookWhenDue(int parent, const ProcessId& worker, absl::Duration t);
  void Add(std::vector<ScoutReport> reports, absl::Duration t, Sample* sample);

  struct Waiting {
    int parent = 0;
    ProcessId worker;
  };

  std::unique_ptr<StartMethodScout> scout_;
  absl::flat_hash_map<ProcessId, int> indexes_;  // of the processes that were asked for
  absl::flat_hash_map<int, ProcessId> pythons_;  // by index: run Python that can be read
  absl::flat_hash_set<int> helpers_;             // multiprocessing's own, and workers of spawn: they pickle nothing
  absl::flat_hash_set<int> started_;             // of these, workers of spawn and forkservers
  int watched_started_ = 0;
  absl::flat_hash_set<int> execed_;
  bool found_ = false;              // what workers would be sent
  std::optional<int> loader_of_;    // the process, by index, in which that was what a DataLoader sends
  std::optional<Waiting> waiting_;  // the last that started a worker while it was too early for a look
  int looks_ = 0;
  absl::Duration asked_, next_look_;
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_START_METHOD_WATCH_H_
