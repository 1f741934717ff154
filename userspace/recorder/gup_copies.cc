// Bounds the copies of GUP from two sides: its faults, and pages that differ from the parent's for no other reason.
#include "recorder/gup_copies.h"

#include <algorithm>

#include "model/saturating.h"

namespace cowprof {
namespace {

uint64_t Or0(const Count& count) { return count.value_or(0); }

uint64_t NewPagesOf(const FaultCounts& counts) { return Or0(counts.zero_fills()) + Or0(counts.file_copies); }

}  // namespace

void GupCopies::NoteFaults(uint32_t serial, uint32_t parent, uint64_t faults, const ProcessSample& row) {
  const auto of_parent = states_.find(parent);
  const Pages then = of_parent == states_.end() ? Pages{} : of_parent->second.before;
  State& state = states_.try_emplace(serial, State{.of_parent = then}).first->second;
  const FaultCounts& counts = row.counts;
  // The kernel does not count every exception as a fault, so the difference may also fall.
  if (counts.faults) state.faults = std::max(state.faults, SaturatingSubtract(faults, *counts.faults));
  state.before = state.now;
  state.now = {.copied = Or0(counts.copies) + state.faults,
               .fresh = NewPagesOf(counts) + state.faults,
               .anon = Or0(row.proc.anon_pages)};
}

uint64_t GupCopies::FaultsOf(uint32_t serial) const {
  const auto state = states_.find(serial);
  return state == states_.end() ? 0 : state->second.faults;
}

void GupCopies::Add(uint64_t copies, ProcessSample* row) {
  FaultCounts& counts = row->counts;
  if (copies == 0 || !counts.copies) return;
  for (Count* const count :
       {&counts.faults, &counts.kernel_faults, &counts.write_protect_faults, &counts.copies, &counts.kernel_copies}) {
    if (*count) **count += copies;
  }
  if (row->causes) (*row->causes)[static_cast<int>(Cause::kKernel)] += copies;
  row->gup_copies = Or0(row->gup_copies) + copies;
}

void GupCopies::AddTo(uint32_t serial, ProcessSample* row) const {
  if (const auto state = states_.find(serial); state != states_.end()) Add(state->second.copies, row);
}

// Pages that a process had and may have replaced since: a new page takes the place of one that it had only if that was
// freed, and then RssAnon has not grown by it.
uint64_t GupCopies::ChangedBy(const Pages& then, const Pages& now) {
  const uint64_t fresh = SaturatingSubtract(now.fresh, then.fresh), grown = SaturatingSubtract(now.anon, then.anon);
  return SaturatingSubtract(now.copied, then.copied) + SaturatingSubtract(fresh, grown);
}

// A page differs from the parent's if one of the two has copied it or has a new one there. What the probes saw of both
// is taken off: of the new pages of this process, those that the sweep did not find where the parent has none.
void GupCopies::Learn(uint32_t serial, uint32_t parent, ProcessSample* row) {
  const auto found = states_.find(serial), of_parent = states_.find(parent);
  if (found == states_.end() || of_parent == states_.end() || !row->sweep || !row->counts.copies) return;
  State& state = found->second;
  const SweepFigures& sweep = *row->sweep;
  const uint64_t copied = SaturatingSubtract(*row->counts.copies, state.copies) + Or0(sweep.later_write_protect_faults);
  const uint64_t fresh = NewPagesOf(row->counts) + Or0(sweep.later_new_pages);
  const uint64_t explained =
      copied + SaturatingSubtract(fresh, sweep.new_pages) + ChangedBy(state.of_parent, of_parent->second.now);
  const uint64_t copies = std::min(SaturatingSubtract(sweep.diverged_pages, explained), state.faults);
  if (copies < kLeast || copies <= state.copies) return;
  Add(copies - state.copies, row);
  state.copies = copies;
}

}  // namespace cowprof
