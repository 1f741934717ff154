// Predicts the cost of a rollup from the cost of the last ones.
#include "recorder/rollups.h"

#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(30);  // between two rollups of a process
constexpr double kShare = 0.004;                         // of one CPU
// A rollup holds the target's mmap_lock for as long as it reads. One that would take longer than this is skipped; the
// sweep shows the same.
constexpr absl::Duration kLongestStall = absl::Milliseconds(3);

absl::StatusOr<RollupFigures> TimedRollup(const ProcFs& proc, pid_t pid, absl::Duration t) {
  const absl::Duration before = BootTime();
  absl::StatusOr<RollupFigures> rollup = proc.ReadRollup(pid);
  if (rollup.ok()) {
    rollup->t = t;
    rollup->cost = BootTime() - before;
  }
  return rollup;
}

double PagesOf(const ProcFigures& figures) {
  return figures.anon_pages.value_or(0) + figures.file_pages.value_or(0) + figures.shmem_pages.value_or(0);
}

}  // namespace

void Rollups::Read(const Processes& processes, absl::Duration interval, bool last, Sample* sample) {
  absl::flat_hash_map<int, const LivingProcess*> living;
  for (const LivingProcess* process : processes.by_index()) {
    living[process->index] = process;
    const bool seen_forked = process->origin == Origin::kForked;
    next_.try_emplace(process->serial, seen_forked ? sample->t + kInterval : sample->t);
  }
  absl::Duration budget = interval * kShare;
  for (ProcessSample& row : sample->processes) {
    const auto found = living.find(row.index);
    if (found == living.end() || !row.proc.anon_pages) continue;
    const LivingProcess& process = *found->second;
    absl::Duration& next = next_.at(process.serial);
    if (!last && sample->t < next) continue;
    const double pages = PagesOf(row.proc);
    if (absl::Nanoseconds(pages * ns_per_page_) > kLongestStall) continue;
    // On a busy host, wall clock time is more than the cost.
    const absl::Duration cpu_before = ReadClock(CLOCK_THREAD_CPUTIME_ID);
    absl::StatusOr<RollupFigures> rollup = TimedRollup(proc_, process.id.pid, sample->t);
    if (!rollup.ok()) continue;
    const double cpu_ns = absl::ToDoubleNanoseconds(ReadClock(CLOCK_THREAD_CPUTIME_ID) - cpu_before);
    if (pages > 1000) ns_per_page_ = 0.8 * ns_per_page_ + 0.2 * cpu_ns / pages;
    row.rollup = *rollup;
    next = sample->t + kInterval;
    budget -= rollup->cost;
    if (budget <= absl::ZeroDuration()) return;  // the others wait for the next tick
  }
}

}  // namespace cowprof
