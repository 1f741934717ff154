// Who each process is, as far as it has to be read: what it is for, how it was started and which framework runs it,
// from its frames; its rank, from its environment. Decides how often to look.
#ifndef COWPROF_ATTRIBUTION_IDENTITIES_H_
#define COWPROF_ATTRIBUTION_IDENTITIES_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "attribution/programs.h"
#include "model/facts/sample.h"
#include "python/duty.h"
#include "python/environ.h"
#include "source/fault_source.h"
#include "source/procfs.h"

namespace cowprof {

class Identities {
 public:
  Identities(ProcFs proc, const Programs* programs) : proc_(std::move(proc)), programs_(programs) {}

  // Adds what became known to the sample: events, the frameworks, and what was last read of the workers of DataLoaders.
  void Read(const std::vector<FollowedProcess>& processes, absl::Duration now, Sample* sample);
  // Between two ticks: looks at processes that were forked a moment ago, and at the batches that are due. Workers may
  // live for no longer than a tick. What became known is in the next sample.
  void LookBetweenTicks(absl::Duration now);
  // When to do so at the latest; infinite: nothing is due.
  absl::Duration next_look() const { return next_look_; }
  // These processes have ended.
  void Forget(const absl::flat_hash_set<uint32_t>& serials);

 private:
  struct State {
    uint32_t image = 0;  // of the program that all of this was read from
    ProcessId parent;
    absl::Duration first_look, next_look;
    // Whether what it is for may become known before the next tick.
    bool is_young(absl::Duration now) const;
    std::optional<DutyFrame> duty;
    std::optional<Framework> framework;
    absl::Duration next_look_for_framework;  // once it is known what the process is for
    std::optional<bool> persistent;
    std::optional<LoaderWorker> loader;
    LoaderLocals loader_locals;
    absl::Duration next_batch;
    std::optional<EnvironReader> environment;
    RankFacts rank;
    bool rank_told = false;
  };

  void Begin(const FollowedProcess& process, const Member& member, absl::Duration now, Sample* sample);
  void LookAt(const Member& member, const State* parent, absl::Duration now, Sample* sample);
  void LookAtBatch(const Member& member, absl::Duration now, State* state);
  void PlanLook(absl::Duration now);
  void LookForWork(const Member& member, const State* parent, absl::Duration now, Sample* sample);
  void LookAtEnvironment(const Member& member, absl::Duration now, Sample* sample);
  void TellRank(const Member& member, const RankFacts& rank, absl::Duration now, Sample* sample);
  const State* StateOf(const ProcessId& id) const;

  ProcFs proc_;
  const Programs* programs_;
  absl::flat_hash_map<uint32_t, State> states_;  // by serial
  absl::flat_hash_map<ProcessId, uint32_t> serials_;
  absl::Duration next_look_ = absl::InfiniteDuration();
  Sample pending_;  // found between two ticks
};

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_IDENTITIES_H_
