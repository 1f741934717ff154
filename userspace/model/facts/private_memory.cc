// Derives a process's private memory from raw samples: the only place that has the formula.
#include "model/facts/private_memory.h"

#include <algorithm>

#include "model/facts/run_model.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr size_t kLongestPast = 1024;

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
  return {.anon_pages = SaturatingSubtract(*process.proc.anon_pages, fresh)};
}

// Interpolates between the samples around `t`.
PrivateMemory::Past PrivateMemory::PastAt(absl::Duration t) const {
  const auto after = std::find_if(past_.begin(), past_.end(), [&](const Past& one) { return one.t >= t; });
  if (after == past_.end()) return past_.back();
  if (after == past_.begin()) return *after;
  const Past& before = *std::prev(after);
  const double part = absl::FDivDuration(t - before.t, after->t - before.t);
  const auto between = [&](uint64_t a, uint64_t b) {
    return SaturatingCast(a + part * (static_cast<double>(b) - static_cast<double>(a)) + 0.5);
  };
  return {t, between(before.copies, after->copies), between(before.anon_pages, after->anon_pages)};
}

// A sweep takes a while and sees each page at the moment it reaches it: on average, the middle of the sweep. A busy
// machine may delay cowprof between reading the counters of a sample and its sweep. Copies made in between show only in
// the next sample, so the past is kept until then.
void PrivateMemory::RebaseOnSweep(const SweepFigures& sweep, Exactness exactness) {
  const bool timed = sweep.end > absl::ZeroDuration();
  const Past then = timed ? PastAt(MiddleOf(sweep)) : past_.back();
  // If only sweeps count copies, this sample already has those of this sweep.
  const uint64_t copies = exactness == Exactness::kPageMap ? past_.back().copies : then.copies;
  anonymous_ = {sweep.private_pages, copies, then.anon_pages};
  if (!timed || MiddleOf(sweep) <= past_.back().t) past_.clear();
}

void PrivateMemory::RebaseOnTruth(const ProcessSample& sample, const RunInfo& info, ProcessModel* process) {
  const uint64_t copies = Or0(process->counts.copies), anon_pages = Or0(process->proc.anon_pages);
  const bool forked = process->origin == Origin::kForked && !process->execed;
  if (forked && (!anonymous_ || !seen_) && process->counts.copies) anonymous_ = BasisAtFork(*process);
  seen_ |= process->proc.anon_pages.has_value();
  if (sample.sweep) {
    process->sweep = sample.sweep;
    // The rollup at attach is older than the first sweep; what it found beyond the sweep's pages is private pages of
    // files.
    if (!anonymous_ && rollup_)
      private_other_bytes_ =
          SaturatingSubtract(process->private_bytes.value_or(0), sample.sweep->private_pages * info.page_bytes);
    RebaseOnSweep(*process->sweep, info.exactness);
  } else if (process->sweep && past_.size() >= 2 && MiddleOf(*process->sweep) > past_[past_.size() - 2].t) {
    RebaseOnSweep(*process->sweep, info.exactness);
  }
  if (sample.rollup) {
    process->rollup = sample.rollup;
    rollup_ = {sample.rollup->private_bytes, copies, anon_pages};
  }
}

void PrivateMemory::Derive(uint64_t page_bytes, ProcessModel* process) const {
  const uint64_t copies = Or0(process->counts.copies), anon_pages = Or0(process->proc.anon_pages);
  if (anonymous_) {
    uint64_t private_pages = Moved(anonymous_->private_pages, anonymous_->anon_pages, anon_pages) +
                             SaturatingSubtract(copies, anonymous_->copies);
    if (process->proc.anon_pages) {
      private_pages = std::min(private_pages, std::max(anon_pages, anonymous_->private_pages));
      process->still_shared_bytes = SaturatingSubtract(anon_pages, private_pages) * page_bytes;
    }
    process->private_bytes = private_pages * page_bytes + private_other_bytes_;
  } else if (rollup_) {
    process->private_bytes = Moved(rollup_->private_bytes, rollup_->anon_pages * page_bytes, anon_pages * page_bytes) +
                             SaturatingSubtract(copies, rollup_->copies) * page_bytes;
  }
  if (process->rollup) process->pss_bytes = process->rollup->pss_bytes;
  if (process->private_bytes)
    process->peak_private_bytes = std::max(Or0(process->peak_private_bytes), *process->private_bytes);
}

void PrivateMemory::Append(const ProcessSample& sample, absl::Duration t, const RunInfo& info, ProcessModel* process) {
  if (past_.size() == kLongestPast) past_.erase(past_.begin());
  past_.push_back({t, Or0(process->counts.copies), Or0(process->proc.anon_pages)});
  RebaseOnTruth(sample, info, process);
  Derive(info.page_bytes, process);
  if (sample.rollup && anonymous_) {
    const uint64_t anonymous_bytes = *process->private_bytes - private_other_bytes_;
    private_other_bytes_ = SaturatingSubtract(sample.rollup->private_bytes, anonymous_bytes);
    Derive(info.page_bytes, process);
  }
  if (process->origin == Origin::kFoundAtAttach && !process->execed && !process->before_attach_bytes)
    process->before_attach_bytes = BeforeAttach(info.page_bytes, *process);
}

// What the process owned at the first look that told, less what it has copied and allocated until then.
Count PrivateMemory::BeforeAttach(uint64_t page_bytes, const ProcessModel& process) {
  if (!process.private_bytes) return std::nullopt;
  const uint64_t fresh = SaturatingSubtract(Or0(process.proc.anon_pages), Or0(process.first_anon_pages));
  return SaturatingSubtract(*process.private_bytes, (Or0(process.counts.copies) + fresh) * page_bytes);
}

void PrivateMemory::Exec(uint64_t copies) {
  anonymous_ = {.copies = copies};
  rollup_.reset();
  private_other_bytes_ = 0;
}

}  // namespace cowprof
