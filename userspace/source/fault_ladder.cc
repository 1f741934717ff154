// See fault_ladder.h.
#include "source/fault_ladder.h"

#include <utility>

#include "source/pagemap_faults.h"

namespace cowprof {
namespace {

// The source of the rung that was chosen; its status is a fact that the next plan is made with. Deaths are told where
// that is allowed: it is no reason not to count.
absl::StatusOr<std::unique_ptr<FaultSource>> Load(const ChosenRungs& chosen, const LadderOptions& wanted,
                                                  HostFacts* facts) {
  if (chosen.copies->name == kRungPageMap) return LoadPagemapFaults(wanted.target, facts->page_bytes);
  BpfOptions options = wanted.bpf;
  options.copies = chosen.copies->name;
  options.faults = chosen.faults->name;
  options.signals = chosen.signals != nullptr;
  options.hugetlb = chosen.hugetlb;
  absl::StatusOr<std::unique_ptr<FaultSource>> source = LoadBpfFaults(options);
  if (!source.ok() && std::exchange(options.hugetlb, false)) source = LoadBpfFaults(options);
  if (source.ok() || !options.signals) return source;
  options.signals = false;
  absl::StatusOr<std::unique_ptr<FaultSource>> without_signals = LoadBpfFaults(options);
  if (!without_signals.ok()) return source;
  facts->refused[std::string(kSignals)] = source.status();
  return without_signals;
}

}  // namespace

LoadedFaults LoadFaults(const HostFacts& facts, const LadderOptions& options) {
  LoadedFaults loaded = {.facts = facts};
  for (;;) {
    loaded.ladder = PlanProbes(loaded.facts, options.without);
    const ChosenRungs chosen = ChooseRungs(loaded.ladder);
    if (chosen.copies == nullptr) return loaded;
    absl::StatusOr<std::unique_ptr<FaultSource>> source = Load(chosen, options, &loaded.facts);
    if (source.ok()) {
      loaded.source = *std::move(source);
      loaded.ladder = PlanProbes(loaded.facts, options.without);
      return loaded;
    }
    loaded.facts.refused[chosen.copies->name] = source.status();
  }
}

}  // namespace cowprof
