// Plans again after each refusal, which is a new fact.
#include "source/fault_ladder.h"

#include <utility>

namespace cowprof {
namespace {

// Loads the chosen rung; a failure becomes a fact for the next plan. Signals and hugetlb copies are included if they
// load; otherwise cowprof counts without them.
absl::StatusOr<std::unique_ptr<FaultSource>> Load(const ChosenRungs& chosen, const LadderOptions& wanted,
                                                  HostFacts* facts) {
  if (chosen.copies->name == kRungPageMap) {
    PagemapOptions options = wanted.pagemap;
    options.page_bytes = facts->page_bytes;
    return LoadPagemapFaults(wanted.target, options);
  }
  BpfOptions options = wanted.bpf;
  options.copies = chosen.copies->name;
  options.faults = chosen.faults->name;
  const bool signals = chosen.signals != nullptr;
  absl::Status refused;
  for (const bool with_signals : {true, false}) {
    for (const bool with_hugetlb : {true, false}) {
      if (with_signals > signals || with_hugetlb > chosen.hugetlb) continue;
      options.signals = with_signals;
      options.hugetlb = with_hugetlb;
      absl::StatusOr<std::unique_ptr<FaultSource>> source = LoadBpfFaults(options, std::move(facts->types));
      if (source.ok() && with_signals < signals) facts->refused[std::string(kSignals)] = refused;
      if (source.ok()) return source;
      refused = source.status();
    }
  }
  return refused;
}

}  // namespace

LoadedFaults LoadFaults(HostFacts facts, const LadderOptions& options) {
  LoadedFaults loaded = {.facts = std::move(facts)};
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
