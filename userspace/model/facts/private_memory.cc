// Derives a process's private memory from raw samples: the only place that has the formula.
#include "model/facts/private_memory.h"

#include <algorithm>
#include <utility>

#include "model/facts/run_model.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

uint64_t Or0(const Count& count) { return count.value_or(0); }

// `base` plus a counter's rise, or minus its fall; never below 0.
uint64_t Moved(uint64_t base, uint64_t then, uint64_t now) {
  return now >= then ? base + (now - then) : SaturatingSubtract(base, then - now);
}

absl::Duration MiddleOf(const SweepFigures& sweep) { return (sweep.begin + sweep.end) / 2; }

}  // namespace

// A forked child inherited the pages that it has now, minus those that are new since. A child that ended between two
// ticks was never seen in /proc: then what it inherited stays unknown, and what was new counts as kept.
PrivateMemory::Basis PrivateMemory::BasisAtFork(const ProcessModel& process) {
  const uint64_t fresh = Or0(process.counts.zero_fills()) + Or0(process.counts.file_copies);
  if (!process.proc.anon_pages) return {.private_pages = fresh};
  return {.anonymous_pages = SaturatingSubtract(process.anonymous_pages(), fresh)};
}

// The counters of the last sample at or before `t`; of the first one, if all are later.
const PrivateMemory::Past& PrivateMemory::LastBefore(absl::Duration t) const {
  const size_t after = past_.FirstThat([&](const Past& one) { return one.t > t; });
  return past_[after == 0 ? 0 : after - 1];
}

// Private pages at the counters of the last sample, as far as a sweep tells. It takes pages one after the other: it may
// have missed what came, and seen what was freed, between its begin and those counters; and it may have seen what came,
// and missed what was freed, after them.
PrivateMemory::Range PrivateMemory::FoundBy(const SweepFigures& sweep, Exactness exactness) const {
  const Past &begun = LastBefore(sweep.begin), &now = past_.back();
  // If only sweeps count copies, this sample already has those of this sweep.
  if (sweep.end == absl::ZeroDuration() || exactness == Exactness::kPageMap)
    return {sweep.private_pages, SaturatingAdd(sweep.private_pages, sweep.swapped_pages)};
  const uint64_t fresh = SaturatingSubtract(now.fresh, begun.fresh);
  const uint64_t came = SaturatingAdd(SaturatingSubtract(now.copies, begun.copies), fresh);
  const uint64_t freed = SaturatingSubtract(SaturatingAdd(begun.anonymous_pages, fresh), now.anonymous_pages);
  uint64_t came_later = 0, freed_later = 0;
  if (sweep.later_write_protect_faults) {
    const uint64_t fresh_later = Or0(sweep.later_new_pages);
    came_later = SaturatingAdd(*sweep.later_write_protect_faults, fresh_later);
    if (sweep.anonymous_pages)
      freed_later = SaturatingSubtract(SaturatingAdd(now.anonymous_pages, fresh_later), *sweep.anonymous_pages);
  } else if (before_ && sweep.end > now.t && now.t > before_->t) {
    // Not known: as much as in the same time before.
    const double part = std::min(absl::FDivDuration(sweep.end - now.t, now.t - before_->t), 1.0);
    came_later = SaturatingCast(part * static_cast<double>(SaturatingSubtract(now.copies, before_->copies) +
                                                           SaturatingSubtract(now.fresh, before_->fresh)));
  }
  return {SaturatingSubtract(sweep.private_pages, SaturatingAdd(freed, came_later)),
          SaturatingAdd(SaturatingAdd(sweep.private_pages, sweep.swapped_pages), SaturatingAdd(came, freed_later))};
}

// Counters are exact, so what they predict stands unless the sweep contradicts it.
void PrivateMemory::RebaseOnSweep(const SweepFigures& sweep, Exactness exactness) {
  const Past now = past_.back();
  const Range found = FoundBy(sweep, exactness);
  const uint64_t predicted = anonymous_ ? PagesAt(now) : sweep.private_pages;
  anonymous_ = {std::clamp(predicted, found.least, found.most), now.copies, now.anonymous_pages};
  past_.Clear();
  past_.Add(now);
}

// What counters predict since the last truth.
uint64_t PrivateMemory::PagesAt(const Past& now) const {
  return Moved(anonymous_->private_pages, anonymous_->anonymous_pages, now.anonymous_pages) +
         SaturatingSubtract(now.copies, anonymous_->copies);
}

// Private pages of files and shared memory, at most what the rollup found beyond anonymous pages. It was read at
// another moment than the page map: a child that was forked, called exec or ended in between made up to `shared` of the
// latter seem to be such pages.
uint64_t PrivateMemory::OtherBytes(const RollupFigures& rollup, uint64_t most, uint64_t shared,
                                   const ProcessModel& process) const {
  if (process.origin == Origin::kForked && !process.execed) return most;  // it shares with its parent, which lives on
  const uint64_t of_files = SaturatingSubtract(rollup.rss_bytes, rollup.anonymous_bytes);
  return std::min(most, std::max({SaturatingSubtract(most, shared), of_files, private_other_bytes_}));
}

void PrivateMemory::RebaseOnTruth(const ProcessSample& sample, const RunInfo& info, ProcessModel* process) {
  const uint64_t copies = process->inherited_copies(), pages = process->anonymous_pages();
  const bool forked = process->origin == Origin::kForked && !process->execed;
  if (forked && (!anonymous_ || !seen_) && process->counts.copies) anonymous_ = BasisAtFork(*process);
  if (!seen_ && process->proc.anon_pages) inherited_pages_ = forked ? BasisAtFork(*process).anonymous_pages : pages;
  seen_ |= process->proc.anon_pages.has_value();
  // A sweep that had begun before the fork shows pages that have become shared since.
  const bool timed = sample.sweep && sample.sweep->end > absl::ZeroDuration();
  const bool outdated = timed && forked_ && sample.sweep->begin < forked_at_;
  if (sample.sweep && !outdated) {
    process->sweep = sample.sweep;
    looked_ = timed ? MiddleOf(*sample.sweep) : past_.back().t;
    // The rollup at attach is older than the first sweep; what it found beyond the sweep's pages is private pages of
    // files.
    if (!anonymous_ && rollup_ && process->rollup)
      private_other_bytes_ = OtherBytes(
          *process->rollup,
          SaturatingSubtract(process->private_bytes.value_or(0), sample.sweep->private_pages * info.page_bytes),
          sample.sweep->shared_pages * info.page_bytes, *process);
    RebaseOnSweep(*process->sweep, info.exactness);
  }
  if (sample.rollup) {
    process->rollup = sample.rollup;
    rollup_ = {sample.rollup->private_bytes, copies, pages};
  }
}

void PrivateMemory::Derive(uint64_t page_bytes, ProcessModel* process) const {
  const uint64_t copies = process->inherited_copies(), pages = process->anonymous_pages();
  if (anonymous_) {
    uint64_t private_pages = PagesAt(past_.back());
    if (process->proc.anon_pages) {
      private_pages = std::min(private_pages, std::max(pages, anonymous_->private_pages));
      process->still_shared_bytes = SaturatingSubtract(pages, private_pages) * page_bytes;
    }
    process->private_bytes = private_pages * page_bytes + private_other_bytes_;
  } else if (rollup_) {
    process->private_bytes = Moved(rollup_->private_bytes, rollup_->anonymous_pages * page_bytes, pages * page_bytes) +
                             SaturatingSubtract(copies, rollup_->copies) * page_bytes;
  }
  if (process->rollup) process->pss_bytes = process->rollup->pss_bytes;
  if (process->private_bytes)
    process->peak_private_bytes = std::max(Or0(process->peak_private_bytes), *process->private_bytes);
}

void PrivateMemory::Append(const ProcessSample& sample, absl::Duration t, const RunInfo& info, ProcessModel* process) {
  const FaultCounts& counts = sample.counts;  // see CopiesOfFiles::Append()
  if (sample.proc.anon_pages && inherited_pages_) of_files_.Append(sample, *process, *inherited_pages_);
  process->copies_of_files = of_files_.pages();
  if (!past_.empty()) before_ = past_.back();
  Past& now = past_.AddPlace();  // by field: a copy would wait for the stores to its parts
  now.t = t;
  now.copies = process->inherited_copies();
  now.fresh = Or0(counts.zero_fills()) + Or0(counts.file_copies) + process->copies_of_files;
  now.anonymous_pages = process->anonymous_pages();
  RebaseOnTruth(sample, info, process);
  Derive(info.page_bytes, process);
  const bool swept = sample.sweep && process->sweep == sample.sweep;
  if (sample.rollup && anonymous_ && forked_ && !swept) {
    // Its children may have made more of its memory its own than is known here.
    const uint64_t anonymous_bytes = SaturatingSubtract(sample.rollup->private_bytes, private_other_bytes_);
    anonymous_ = {anonymous_bytes / info.page_bytes, process->inherited_copies(), process->anonymous_pages()};
    looked_ = t;
    Derive(info.page_bytes, process);
  } else if (sample.rollup && anonymous_) {
    const uint64_t anonymous_bytes = *process->private_bytes - private_other_bytes_;
    // What is swapped out is missing in the rollup.
    const uint64_t most = SaturatingSubtract(sample.rollup->private_bytes, anonymous_bytes);
    private_other_bytes_ = std::max(OtherBytes(*sample.rollup, most, Or0(process->still_shared_bytes), *process),
                                    std::min(private_other_bytes_, sample.rollup->swap_bytes));
    Derive(info.page_bytes, process);
  }
  if (process->origin == Origin::kFoundAtAttach && !process->execed && !process->before_attach_bytes)
    process->before_attach_bytes = BeforeAttach(info.page_bytes, *process);
}

void PrivateMemory::Fork(absl::Duration t, uint64_t pages, const RunInfo& info, ProcessModel* process) {
  const bool page_map = info.exactness == Exactness::kPageMap;
  if (past_.empty()) return;
  const Past& now = past_.back();
  const Past before = before_.value_or(now);
  const absl::Duration since = now.t - before.t;
  const double part = since > absl::ZeroDuration() ? std::clamp(absl::FDivDuration(t - before.t, since), 0.0, 1.0) : 1;
  // Where only sweeps count copies, those of this sample may be older than the fork.
  const uint64_t copied = SaturatingSubtract(now.copies, before.copies),
                 copied_since = page_map ? 0 : SaturatingCast((1 - part) * static_cast<double>(copied));
  forked_ = {.private_pages = 0, .copies = now.copies - copied_since, .anonymous_pages = pages};
  forked_at_ = t;
  shares_.Clear();
  shares_.Add({t, {.least = 0, .product = 0}});
  if (!anonymous_) return;
  if (process->sweep && process->sweep->begin >= t) {
    looked_ = MiddleOf(*process->sweep);
    return;
  }
  anonymous_ = forked_;
  looked_ = t;
  Derive(info.page_bytes, process);
}

// Of the samples around `t`, and interpolated between them.
PrivateMemory::SharesAround PrivateMemory::SharesAt(absl::Duration t) const {
  const size_t next = shares_.FirstThat([&](const Shares& one) { return one.t >= t; });
  if (next == 0 || next == shares_.size()) {
    const CopiedShares& only = next == 0 ? shares_[0].copied : shares_.back().copied;
    return {only, only, only};
  }
  const auto& [t_before, before] = shares_[next - 1];
  const auto& [t_after, after] = shares_[next];
  const double part = absl::FDivDuration(t - t_before, t_after - t_before);
  return {
      before,
      {before.least + part * (after.least - before.least), before.product + part * (after.product - before.product)},
      after};
}

double PrivateMemory::CopiedByAll(const CopiedShares& copied) const {
  return copied.product + alike_ * (copied.least - copied.product);
}

// The look shows how far the children copy the same pages; until the next one, they are taken to go on like that. Where
// they copied most between two samples, it is not known how much of that the look saw: then it shows only that.
void PrivateMemory::Follow(absl::Duration t, const CopiedShares& copied, uint64_t page_bytes, ProcessModel* process) {
  if (!anonymous_ || !process->private_bytes) return;
  shares_.Add({t, copied});
  const Basis forked =
      forked_.value_or(Basis{.copies = anonymous_->copies, .anonymous_pages = anonymous_->anonymous_pages});
  const double pages = static_cast<double>(forked.anonymous_pages);
  if (looked_) {
    const auto [before, then, after] = SharesAt(*looked_);
    const uint64_t made = SaturatingSubtract(anonymous_->anonymous_pages, forked.anonymous_pages) +
                          SaturatingSubtract(anonymous_->copies, forked.copies);
    const double got = pages > 0 ? SaturatingSubtract(anonymous_->private_pages, made) / pages : 0;
    const bool steady = after.least - before.least <= before.least / 2;
    if (steady && then.least - then.product > 0.01)
      alike_ = std::clamp((got - then.product) / (then.least - then.product), 0.0, 1.0);
    copied_by_all_ = steady ? CopiedByAll(then)
                            : std::clamp(got, CopiedByAll(before), std::max(CopiedByAll(before), CopiedByAll(after)));
    // What was copied until a look that was later than this sample shows in the next one.
    if (*looked_ <= t) {
      looked_.reset();
      shares_.Clear();
      shares_.Add({t, copied});
    }
  }
  const uint64_t gained = SaturatingCast(std::max(0.0, CopiedByAll(copied) - copied_by_all_) * pages) * page_bytes;
  const uint64_t owned = std::min(gained, Or0(process->still_shared_bytes));
  *process->private_bytes += owned;
  if (process->still_shared_bytes) *process->still_shared_bytes -= owned;
  process->peak_private_bytes = std::max(Or0(process->peak_private_bytes), *process->private_bytes);
}

// What the process owned at the first look that told, less what it has copied and allocated until then.
Count PrivateMemory::BeforeAttach(uint64_t page_bytes, const ProcessModel& process) {
  if (!process.private_bytes) return std::nullopt;
  const uint64_t fresh = SaturatingSubtract(process.anonymous_pages(), process.first_anonymous_pages());
  return SaturatingSubtract(*process.private_bytes, (process.inherited_copies() + fresh) * page_bytes);
}

void PrivateMemory::Exec(uint64_t copies) {
  anonymous_ = {.copies = copies};
  inherited_pages_ = 0;
  of_files_ = {};
  forked_.reset();
  shares_.Clear();
  looked_.reset();
  rollup_.reset();
  private_other_bytes_ = 0;
}

}  // namespace cowprof
