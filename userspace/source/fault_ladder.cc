// See fault_ladder.h.
#include "source/fault_ladder.h"

#include <utility>

#include "source/pagemap_faults.h"

namespace cowprof {
namespace {

// The source of the rung that was chosen; its status is a fact that the next plan is made with. Deaths are told where
// that is allowed, and copies of hugetlb counted: they are no reason not to count.
absl::StatusOr<std::unique_ptr<FaultSource>> Load(const ChosenRungs& chosen, const LadderOptions& wanted,
                                                  HostFacts* facts) {
  if (chosen.copies->name == kRungPageMap) return LoadPagemapFaults(wanted.target, facts->page_bytes);
  BpfOptions options = wanted.bpf;
  options.copies = chosen.copies->name;
  options.faults = chosen.faults->name;
  const auto load = [&](bool hugetlb, bool signals) {
    options.hugetlb = hugetlb;
    options.signals = signals;
    return LoadBpfFaults(options);
  };
  const bool signals = chosen.signals != nullptr;
  absl::StatusOr<std::unique_ptr<FaultSource>> source = load(chosen.hugetlb, signals);
  if (!source.ok() && chosen.hugetlb) source = load(false, signals);
  if (source.ok() || !signals) return source;
  for (const bool hugetlb : {true, false}) {
    if (hugetlb > chosen.hugetlb) continue;
    absl::StatusOr<std::unique_ptr<FaultSource>> without_signals = load(hugetlb, false);
    if (!without_signals.ok()) continue;
    facts->refused[std::string(kSignals)] = source.status();
    return without_signals;
  }
  return source;
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
