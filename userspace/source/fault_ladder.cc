// See fault_ladder.h.
#include "source/fault_ladder.h"

#include <utility>

#include "source/pagemap_faults.h"

namespace cowprof {
namespace {

// The source of one rung; its status is a fact that the next plan is made with.
absl::StatusOr<std::unique_ptr<FaultSource>> Load(const Rung& rung, uint64_t page_bytes, const LadderOptions& options) {
  if (rung.name == kRungTracepoints) return LoadBpfFaults(options.bpf);
  if (rung.name == kRungPageMap) return LoadPagemapFaults(options.target, page_bytes);
  return absl::UnimplementedError(rung.name);
}

}  // namespace

LoadedFaults LoadFaults(const HostFacts& facts, const LadderOptions& options) {
  LoadedFaults loaded = {.facts = facts};
  for (;;) {
    loaded.ladder = PlanProbes(loaded.facts, options.without);
    const Rung* rung = ChosenRung(loaded.ladder);
    if (rung == nullptr) return loaded;
    absl::StatusOr<std::unique_ptr<FaultSource>> source = Load(*rung, facts.page_bytes, options);
    if (source.ok()) {
      loaded.source = *std::move(source);
      return loaded;
    }
    loaded.facts.refused[rung->name] = source.status();
  }
}

}  // namespace cowprof
