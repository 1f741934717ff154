#include "model/facts/copies_of_files.h"

#include <algorithm>

#include "model/facts/run_model.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// What is less may be a worker's start: the loader writes to pages of libraries.
constexpr uint64_t kLeastPages = 1024;
// Without a sweep: new memory that raised no exception, as by mlock(2), also raises RssAnon, by any amount.
constexpr double kAbout = 0.8, kAtMost = 1.1;

// Whether it was compared with the pages of the process's parent.
bool IsCompared(const SweepFigures& sweep) { return sweep.diverged_pages + sweep.same_pages + sweep.new_pages > 0; }

// Otherwise a sweep says nothing of a process that may have copied what its children shared, nor by single regions.
bool Tells(const SweepFigures& sweep, const ProcessModel& process) {
  return IsCompared(sweep) || (sweep.full && process.forks + process.forks_before_attach == 0);
}

// Copies that can't be of memory which the process shared. `fresh`: pages that it got otherwise.
uint64_t FoundBy(const SweepFigures& sweep, uint64_t copies, uint64_t fresh) {
  if (IsCompared(sweep))
    return std::min(SaturatingSubtract(copies, sweep.diverged_pages), SaturatingSubtract(sweep.new_pages, fresh));
  return sweep.shared_pages == 0 ? copies : 0;
}

// Copies by writes, of a program or a system call. 0: causes are not known.
uint64_t WrittenBy(const ProcessModel& process) {
  if (!process.causes) return 0;
  return SaturatingAdd((*process.causes)[static_cast<int>(Cause::kData)],
                       (*process.causes)[static_cast<int>(Cause::kKernel)]);
}

}  // namespace

// Reads the row's counts, not the process's, which were copied from it just now: a read so soon after the wide stores
// of memcpy(3) waits until they are done.
void CopiesOfFiles::Append(const ProcessSample& row, const ProcessModel& process, uint64_t inherited_pages) {
  const FaultCounts& counts = row.counts;
  if (!counts.copies || !counts.zero_fill_pages || !process.proc.anon_pages) return;
  const uint64_t fresh = SaturatingAdd(*counts.zero_fills(), counts.file_copies.value_or(0));
  now_.copies = *counts.copies;
  now_.risen = SaturatingSubtract(process.anonymous_pages(), SaturatingAdd(inherited_pages, fresh));
  if (row.sweep && Tells(*row.sweep, process)) {
    const uint64_t found = std::min({now_.copies, now_.risen, FoundBy(*row.sweep, now_.copies, fresh)});
    now_.pages = has_sweep_ ? std::max(swept_.pages, found) : found;
    has_sweep_ = true;
    swept_ = now_;
    return;
  }
  const uint64_t copies = SaturatingSubtract(now_.copies, swept_.copies),
                 risen = SaturatingSubtract(now_.risen, swept_.risen);
  if (risen >= kAbout * copies && risen <= kAtMost * copies)
    now_.pages = std::max(now_.pages, std::min(swept_.pages + std::min(copies, risen), WrittenBy(process)));
}

uint64_t CopiesOfFiles::pages() const { return now_.pages >= kLeastPages ? now_.pages : 0; }

}  // namespace cowprof
