// Predicts the cost of a rollup from the cost of the last ones.
#include "recorder/rollups.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

// Between two rollups of a process: it doubles, since a program maps its files when it starts.
constexpr absl::Duration kFirstInterval = absl::Seconds(1), kInterval = absl::Seconds(30);
constexpr absl::Duration kNowInterval = absl::Milliseconds(200);  // of ReadNow()
constexpr double kShare = 0.004;                                  // of one CPU
// A rollup holds the target's mmap_lock for as long as it reads. One that would take longer than this is skipped; the
// sweep shows the same but for private pages of files. At the end it is worth more, and happens once.
constexpr absl::Duration kLongestStall = absl::Milliseconds(3), kLongestStallAtEnd = absl::Milliseconds(10);
// From so many pages of shared memory on, those that the kernel calls private would show: then smaps is read, of some
// 2,500 mappings at most, at 2 us each.
constexpr uint64_t kLeastShmemPages = 256;
constexpr size_t kMaxSmapsBytes = 2 << 20;

absl::StatusOr<RollupFigures> ReadSmaps(const ProcFs& proc, pid_t pid) {
  const std::string text = proc.ReadHead(pid, "smaps", kMaxSmapsBytes);
  if (text.size() == kMaxSmapsBytes) return absl::ResourceExhaustedError("too many mappings");
  return ParseRollup(text);
}

absl::StatusOr<RollupFigures> TimedRollup(const ProcFs& proc, pid_t pid, bool by_mapping, absl::Duration t) {
  const absl::Duration before = BootTime();
  absl::StatusOr<RollupFigures> rollup = by_mapping ? ReadSmaps(proc, pid) : proc.ReadRollup(pid);
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

std::optional<absl::Duration> Rollups::ReadOne(const LivingProcess& process, absl::Duration t, bool last,
                                               ProcessSample* row) {
  const double pages = PagesOf(row->proc);
  if (absl::Nanoseconds(pages * ns_per_page_) > (last ? kLongestStallAtEnd : kLongestStall)) return std::nullopt;
  // On a busy host, wall clock time is more than the cost.
  const absl::Duration cpu_before = ReadClock(CLOCK_THREAD_CPUTIME_ID);
  const bool by_mapping = row->proc.shmem_pages.value_or(0) >= kLeastShmemPages;
  absl::StatusOr<RollupFigures> rollup = TimedRollup(proc_, process.id.pid, by_mapping, t);
  if (!rollup.ok()) return std::nullopt;
  const absl::Duration cost = ReadClock(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
  // smaps takes time for each mapping as well, but lets go of mmap_lock after a few.
  if (pages > 1000 && !by_mapping) ns_per_page_ = 0.8 * ns_per_page_ + 0.2 * absl::ToDoubleNanoseconds(cost) / pages;
  row->rollup = *rollup;
  return cost;
}

void Rollups::Read(const Processes& processes, absl::Duration interval, bool last, Sample* sample) {
  absl::flat_hash_map<int, const LivingProcess*> living;
  for (const LivingProcess* process : processes.by_index()) {
    living[process->index] = process;
    const bool seen_forked = process->origin == Origin::kForked;
    const State first = seen_forked ? State{sample->t + kInterval, kInterval} : State{sample->t, kFirstInterval};
    states_.try_emplace(process->serial, first);
  }
  absl::Duration budget = interval * kShare;
  for (ProcessSample& row : sample->processes) {
    const auto found = living.find(row.index);
    if (found == living.end() || !row.proc.anon_pages) continue;
    State& state = states_.at(found->second->serial);
    if ((!last && sample->t < state.next) || !ReadOne(*found->second, sample->t, last, &row)) continue;
    state.next = sample->t + state.interval;
    state.interval = std::min(2 * state.interval, kInterval);
    budget -= row.rollup->cost;
    if (budget <= absl::ZeroDuration()) return;  // the others wait for the next tick
  }
}

void Rollups::ReadNow(const LivingProcess& process, absl::Duration t, ProcessSample* row) {
  if (t < next_now_ || !row->proc.anon_pages) return;
  if (const std::optional<absl::Duration> cost = ReadOne(process, t, /*last=*/false, row))
    next_now_ = t + std::max(kNowInterval, *cost / kShare);
}

}  // namespace cowprof
