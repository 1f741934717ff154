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
  const bool signals = chosen.signals != nullptr;
  absl::Status refused;
  for (const bool with_signals : {true, false}) {
    for (const bool with_hugetlb : {true, false}) {
      if (with_signals > signals || with_hugetlb > chosen.hugetlb) continue;
      options.signals = with_signals;
      options.hugetlb = with_hugetlb;
      absl::StatusOr<std::unique_ptr<FaultSource>> source = LoadBpfFaults(options);
      if (source.ok() && with_signals < signals) facts->refused[std::string(kSignals)] = refused;
      if (source.ok()) return source;
      refused = source.status();
    }
  }
  return refused;
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
