#include "model/facts/ended_aggregate.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "model/facts/bad_end.h"

namespace cowprof {
namespace {

constexpr int kFirstOnes = 64;  // usually all of a run's workers

void Add(const Count& more, Count* sum) {
  if (more) *sum = sum->value_or(0) + *more;
}

void Raise(const Count& one, Count* most) { *most = one && *most ? Count(std::max(*one, **most)) : std::nullopt; }

void Add(const FaultCounts& more, FaultCounts* sum) {
  constexpr Count FaultCounts::*kCounts[] = {
      &FaultCounts::faults,      &FaultCounts::kernel_faults, &FaultCounts::write_protect_faults,
      &FaultCounts::copies,      &FaultCounts::kernel_copies, &FaultCounts::zero_upgrades,
      &FaultCounts::file_copies, &FaultCounts::shm_pages,     &FaultCounts::zero_fill_pages,
      &FaultCounts::swap_ins};
  for (const auto count : kCounts) Add(more.*count, &(sum->*count));
}

void AddRegions(const ProcessModel& process, ProcessModel* row) {
  process.copied_pages.ForEach([&](int region, uint64_t pages) { row->copied_pages[region] += pages; });
  if (!process.copied_pages.empty()) return;
  for (const auto& [region, count] : process.regions) {
    if (count.diverged_pages > 0) row->copied_pages[region] += count.diverged_pages;
  }
}

void AddVerified(const VerifyFigures& more, ProcessModel* row) {
  VerifyFigures& sum = row->verify ? *row->verify : row->verify.emplace();
  sum.pages += more.pages;
  sum.identical += more.identical;
  sum.refcount_only += more.refcount_only;
  sum.gc_header_only += more.gc_header_only;
  sum.hash_only += more.hash_only;
  sum.data += more.data;
}

void Add(const ProcessModel& process, ProcessModel* row) {
  row->stands_for += process.stands_for;
  row->started = std::min(row->started, process.started);
  row->ended = std::max(row->ended, process.ended);
  Add(process.counts, &row->counts);
  Raise(process.counts.copies, &row->most_copies);
  Raise(process.peak_private_bytes, &row->most_private_bytes);
  row->copies_of_files += process.copies_of_files;
  row->gup_copies += process.gup_copies;
  if (process.causes) {
    if (!row->causes) row->causes.emplace();
    cowprof::Add(*process.causes, &*row->causes);
  }
  for (const auto& [copy_site, more] : process.copy_sites) {
    CopySiteCount& sum =
        row->copy_sites.try_emplace(copy_site, CopySiteCount{.index = row->index, .copy_site = copy_site})
            .first->second;
    sum.copies += more.copies;
    sum.samples += more.samples;
    sum.squares += more.squares;
  }
  AddRegions(process, row);
  if (process.verify) AddVerified(*process.verify, row);
  Add(process.private_bytes, &row->private_bytes);
  Add(process.still_shared_bytes, &row->still_shared_bytes);
}

void Add(const ProcessModel& process, Totals* totals) {
  totals->processes += process.stands_for;
  totals->copies_known |= process.counts.copies.has_value();
  totals->copies += process.counts.copies.value_or(0);
  totals->causes_known |= process.causes.has_value();
  if (process.causes) cowprof::Add(*process.causes, &totals->causes);
  totals->reuses += process.counts.reuses().value_or(0);
  totals->private_known |= process.private_bytes.has_value();
  totals->private_bytes += process.private_bytes.value_or(0);
  totals->still_shared_known |= process.still_shared_bytes.has_value();
  totals->still_shared_bytes += process.still_shared_bytes.value_or(0);
  totals->copies_per_second += process.copies_per_second;
}

void Add(const Totals& more, Totals* totals) {
  totals->processes += more.processes;
  totals->copies_known |= more.copies_known;
  totals->copies += more.copies;
  totals->causes_known |= more.causes_known;
  cowprof::Add(more.causes, &totals->causes);
  totals->reuses += more.reuses;
  totals->private_known |= more.private_known;
  totals->private_bytes += more.private_bytes;
  totals->still_shared_known |= more.still_shared_known;
  totals->still_shared_bytes += more.still_shared_bytes;
  totals->copies_per_second += more.copies_per_second;
}

// Whether `settled` and `lately` hold each process once.
bool IsSettled(const RunModel& model) { return !model.settled.stale && model.accounts_for_all(); }

template <typename Visit>
void ForEachUnsettled(const RunModel& model, bool settled, const Visit& visit) {
  if (settled) {
    ForEachLately(model, visit);
  } else {
    ForEachRow(model, visit);
  }
}

// Returns the row for processes of this kind: what is asked of a sum must hold for each of its processes.
ProcessModel& RowFor(const ProcessModel& process, std::vector<ProcessModel>* rows) {
  const auto kind = [](const ProcessModel& one) {
    return std::make_tuple(one.role, one.execed, one.origin, one.duty.start, one.is_worker());
  };
  const auto found =
      std::find_if(rows->begin(), rows->end(), [&](const ProcessModel& row) { return kind(row) == kind(process); });
  if (found != rows->end()) return *found;
  return rows->emplace_back(ProcessModel{.index = -1,
                                         .origin = process.origin,
                                         .role = process.role,
                                         .comm = process.comm,
                                         .command = process.command,
                                         .execed = process.execed,
                                         .duty = {.start = process.duty.start},
                                         .leads = process.leads,
                                         .started = process.started,
                                         .ended = process.ended,
                                         .stands_for = 0,
                                         .most_copies = 0,
                                         .most_private_bytes = 0,
                                         .space = process.space == process.index ? -1 : 0});
}

// Processes with higher values are kept.
std::tuple<bool, bool, uint64_t> InterestIn(const ProcessModel& process, const RunModel& model) {
  const uint64_t copied_bytes = process.counts.copies.value_or(0) * model.info.page_bytes;
  return {process.index < kFirstOnes, process.oom_victim || HasBadEnd(process, model),
          std::max(copied_bytes, process.peak_private_bytes.value_or(0))};
}

// A worker joins a set when its role is known, which may be after its parent's end.
void ForgetWorkerSets(RunModel* model) {
  absl::flat_hash_set<int> parents;
  for (const ProcessModel& process : model->processes) {
    if (!process.ended) parents.insert(process.parent);
  }
  std::erase_if(model->worker_sets, [&](const auto& entry) {
    return model->Find(entry.first) == nullptr && !parents.contains(entry.first);
  });
}

}  // namespace

void AggregateEnded(RunModel* model) {
  if (model->processes.size() <= model->most_ended + model->most_ended / 4) return;
  std::vector<std::pair<std::tuple<bool, bool, uint64_t>, int>> ended;
  for (const ProcessModel& process : model->processes) {
    if (process.ended && process.index > 0) ended.emplace_back(InterestIn(process, *model), process.index);
  }
  if (ended.size() <= model->most_ended + model->most_ended / 4) return;
  const auto kept = ended.end() - model->most_ended;
  std::nth_element(ended.begin(), kept, ended.end());
  absl::flat_hash_set<int> gone;
  for (auto one = ended.begin(); one != kept; ++one) {
    const bool in_this_sample = std::binary_search(model->lately.begin(), model->lately.end(), one->second);
    if (!in_this_sample) gone.insert(one->second);
  }
  // First, since whether an end was bad depends on the parent, which may go, too.
  for (const ProcessModel& process : model->processes) {
    if (!gone.contains(process.index)) continue;
    ProcessModel& row = RowFor(process, &model->ended_aggregates);
    Add(process, &row);
    row.bad_ends += HasBadEnd(process, *model);
  }
  std::erase_if(model->processes, [&](const ProcessModel& process) {
    if (!gone.contains(process.index)) return false;
    model->private_memory.erase(process.index);
    --model->settled.listed;
    return true;
  });
  ForgetWorkerSets(model);
}

void SettleEnded(RunModel* model) {
  std::erase_if(model->lately, [&](int index) {
    const ProcessModel* process = model->Find(index);
    if (process == nullptr || !process->ended) return process == nullptr;
    Add(*process, &model->settled.all);
    if (process->is_worker()) {
      Add(*process, &model->settled.workers);
      model->settled.inherited_copies += process->inherited_copies();
    }
    ++model->settled.listed;
    return true;
  });
}

LivingAndAll SumsOf(const RunModel& model) {
  const bool settled = IsSettled(model);
  LivingAndAll sums;
  if (settled) sums.all = model.settled.all;
  ForEachUnsettled(model, settled,
                   [&](const ProcessModel& process) { Add(process, process.ended ? &sums.all : &sums.living); });
  Add(sums.living, &sums.all);
  return sums;
}

Totals SumOf(const RunModel& model, bool living_only, bool workers_only) {
  const bool settled = IsSettled(model);
  Totals totals;
  if (settled && !living_only) totals = workers_only ? model.settled.workers : model.settled.all;
  ForEachUnsettled(model, settled, [&](const ProcessModel& process) {
    if (!(living_only && process.ended) && !(workers_only && !process.is_worker())) Add(process, &totals);
  });
  return totals;
}

uint64_t CopiesOfWorkers(const RunModel& model) {
  const bool settled = IsSettled(model);
  uint64_t copies = settled ? model.settled.inherited_copies : 0;
  ForEachUnsettled(model, settled, [&](const ProcessModel& process) {
    if (process.is_worker()) copies += process.inherited_copies();
  });
  return copies;
}

}  // namespace cowprof
