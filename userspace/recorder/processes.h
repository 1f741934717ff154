// Living followed processes: their numbers in the recording, their parents, and whose address space each has.
#ifndef COWPROF_RECORDER_PROCESSES_H_
#define COWPROF_RECORDER_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "model/facts/sample.h"
#include "source/fault_source.h"
#include "source/procfs.h"

namespace cowprof {

struct LivingProcess {
  int index = 0;  // in the recording; the target's is 0
  int space = 0;  // index of the process whose address space it has: its own since an exec, its parent's since a fork
  uint32_t serial = 0;
  ProcessId id, parent;
  Origin origin = Origin::kForked;
};

class Processes {
 public:
  explicit Processes(ProcFs proc) : proc_(std::move(proc)) {}

  // Numbers a process that is new; false: it is known already.
  bool Add(const FollowedProcess& process);
  // The process has a new address space.
  void Exec(const ProcessId& id);
  void End(const ProcessId& id);

  // Null: it does not live, or is not followed.
  const LivingProcess* Find(const ProcessId& id) const;
  const LivingProcess* Find(uint32_t serial) const;
  // The process of an event; by pid alone if its start time is unknown.
  const LivingProcess* FindSeen(const ProcessId& id) const;
  // Whether another living process has its address space.
  bool SharesSpace(const LivingProcess& process) const { return members_.at(process.space) > 1; }
  // Its parent, if it has the parent's address space; null otherwise.
  const LivingProcess* ParentInSpace(const LivingProcess& process) const;
  std::vector<const LivingProcess*> by_index() const;

  // Whether one has ended since the last look at the process tree.
  bool SomeHaveEnded() const;

  pid_t target() const { return target_; }  // also after its end
  bool target_alive() const { return target_alive_; }

 private:
  bool Inherits(const FollowedProcess& process, const LivingProcess* parent) const;
  void Leave(int space);
  void MoveToOwnSpace(LivingProcess* process);

  ProcFs proc_;
  absl::flat_hash_map<ProcessId, LivingProcess> living_;
  absl::flat_hash_map<uint32_t, ProcessId> ids_;  // by serial
  absl::flat_hash_map<int, int> members_;         // how many have each address space
  int next_index_ = 0;
  pid_t target_ = 0;
  bool target_alive_ = true;
};

}  // namespace cowprof

#endif  // COWPROF_RECORDER_PROCESSES_H_
