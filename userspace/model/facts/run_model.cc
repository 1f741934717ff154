// Adds samples to the model of a run, row by row.
#include "model/facts/run_model.h"

#include <string.h>
#include <sys/wait.h>

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "model/facts/ended_aggregate.h"
#include "model/facts/oom_evidence.h"
#include "model/facts/roles.h"
#include "model/facts/run_events.h"
#include "model/facts/run_pages.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

uint64_t Or0(const Count& count) { return count.value_or(0); }

constexpr size_t kMostUnlinked = 16;

void AppendProcess(const ProcessSample& sample, absl::Duration t, double elapsed_seconds, const RunInfo& info,
                   PrivateMemory* memory, ProcessModel* process) {
  const uint64_t copied = SaturatingSubtract(Or0(sample.counts.copies), Or0(process->counts.copies));
  process->copies_per_second = elapsed_seconds > 0 ? copied / elapsed_seconds : 0;
  process->counts = sample.counts;
  if (sample.causes) process->causes = sample.causes;
  if (sample.verify) process->verify = sample.verify;
  if (sample.collector_on) process->collector_on = sample.collector_on;
  if (sample.persistent) process->persistent = sample.persistent;
  if (sample.framework) process->framework = sample.framework;
  process->gup_copies = Or0(sample.gup_copies);
  process->mappings = sample.mappings;
  if (const Count now = sample.proc.descriptors) {
    process->peak_descriptors = std::max(process->peak_descriptors, now);
    process->descriptor_rise.Append(t, process->started, process->proc.descriptors.value_or(*now), *now);
  }
  if (process->vforked) {  // what /proc shows is its parent's
    process->private_bytes = process->peak_private_bytes = process->still_shared_bytes = 0;
    return;
  }
  // The last row of an ended process has only counts: nothing was left in /proc.
  if (sample.proc.anon_pages) process->proc = sample.proc;
  if (!process->first_anon_pages && sample.proc.anon_pages) {
    process->first_anon_pages = sample.proc.anon_pages;
    process->first_swap_pages = Or0(sample.proc.swap_pages);
  }
  memory->Append(sample, t, info, process);
}

// Returns where the private memory of process `index` is derived. `last`: what it returned for the process before,
// whose neighbour it most often is.
std::map<int, PrivateMemory>::iterator MemoryOf(int index, std::map<int, PrivateMemory>::iterator last,
                                                RunModel* model) {
  const auto end = model->private_memory.end();
  if (last != end && last->first != index) ++last;
  return last != end && last->first == index ? last : model->private_memory.try_emplace(index).first;
}

void AppendGrowth(const Sample& sample, RunModel* model) {
  model->growth_sites.insert(model->growth_sites.end(), sample.new_growth_sites.begin(), sample.new_growth_sites.end());
  for (const GrowthCount& count : sample.growth) {
    const bool known = count.site >= 0 && count.site < static_cast<int>(model->growth_sites.size());
    ProcessModel* process = Announced(count.index, model);
    if (!known || process == nullptr) continue;
    process->growth[count.site].Append(sample.t, count.pages);
  }
}

void AppendLimit(const LimitSample& limit, absl::Duration t, RunModel* model) {
  auto known = absl::c_find_if(model->limits, [&](const LimitModel& one) { return one.now.key() == limit.key(); });
  if (known == model->limits.end()) {
    const auto before =
        absl::c_find_if(model->info.limits, [&](const LimitSample& one) { return one.key() == limit.key(); });
    known = model->limits.insert(known, LimitModel{});
    known->lowest = before == model->info.limits.end() ? limit.used : before->used;
  }
  known->now = limit;
  known->peak = std::max(known->peak, limit.used);
  known->lowest = std::min(known->lowest, limit.used);
  known->rise = std::max(known->rise, limit.used - known->lowest);
  if (const double ratio = limit.ratio().value_or(0); ratio >= known->peak_ratio) {
    known->peak_ratio = ratio;
    known->peak_limit = limit.limit;
    known->peak_t = t;
  }
}

void AppendShm(const ShmSample& sample, RunModel* model) {
  for (const ShmSegment& segment : sample.segments) {
    const auto same = [&](const ShmSegment& known) {
      return known.device == segment.device && known.inode == segment.inode;
    };
    const bool is_new = std::none_of(model->shm_unlinked.begin(), model->shm_unlinked.end(), same);
    if (segment.lost_name && is_new && model->shm_unlinked.size() < kMostUnlinked)
      model->shm_unlinked.push_back(segment);
  }
  model->shm = sample;
  if (sample.whole) model->shm_whole = sample;
  if (!model->shm_peak || sample.used_bytes >= model->shm_peak->used_bytes) model->shm_peak = sample;
}

// Of what a forked process inherited, what is its own now though it copied it not: those that shared it are gone. Its
// own anonymous memory beyond all that it ever touched first (which khugepaged may add to, too), and as far as it no
// longer shares it. Bytes.
uint64_t LeftTo(const ProcessModel& process, uint64_t page_bytes) {
  constexpr uint64_t kLeast = 4 << 20;  // /proc is read some time after the counters
  const bool forked = process.origin == Origin::kForked && !process.execed;
  if (!forked || !process.still_shared_bytes || !process.counts.zero_fills()) return 0;
  const uint64_t own = SaturatingSubtract(process.anonymous_pages() * page_bytes, *process.still_shared_bytes);
  const uint64_t touched = *process.counts.zero_fills() + Or0(process.counts.file_copies) + process.copies_of_files +
                           Or0(process.counts.copies);
  const uint64_t unshared =
      SaturatingSubtract(SaturatingSubtract(process.first_anonymous_pages(), process.inherited_copies()) * page_bytes,
                         *process.still_shared_bytes);
  const uint64_t left = std::min(SaturatingSubtract(own, touched * page_bytes), unshared);
  return left > kLeast ? left : 0;
}

// Sums up what the workers have that `lives` picks. A worker copied what was not private before the attach, as far as
// it still has it.
template <typename Lives>
WorkersPeak PrivateNow(absl::Duration t, const RunModel& model, const Lives& lives) {
  WorkersPeak now = {.t = t};
  ForEachLately(model, [&](const ProcessModel& process) {
    if (!process.is_worker() || !lives(process)) return;
    const uint64_t bytes = Or0(process.private_bytes), before = std::min(Or0(process.before_attach_bytes), bytes);
    const uint64_t copied = std::min(Or0(process.counts.copies) * model.info.page_bytes, bytes - before);
    now.bytes += bytes;
    now.before_attach_bytes += before;
    if (before > 0) now.before_attach_of.emplace(process.index, before);
    now.copied_bytes += copied;
    now.copied_of_files_bytes += std::min(process.copies_of_files * model.info.page_bytes, copied);
    const uint64_t left = std::min(LeftTo(process, model.info.page_bytes), bytes - before - copied);
    now.left_bytes += left;
    now.fresh_bytes.emplace_back(process.index, bytes - before - copied - left);
    if (process.causes) Add(*process.causes, &now.copies);
  });
  return now;
}

// Most samples are no peak, and then only the sums are needed.
template <typename Lives>
void RaisePeak(absl::Duration t, const Lives& lives, RunModel* model) {
  uint64_t bytes = 0;
  std::map<uint64_t, uint64_t> of_ranks;
  ForEachLately(*model, [&](const ProcessModel& process) {
    if (!process.is_worker() || !lives(process)) return;
    bytes += Or0(process.private_bytes);
    const RankFacts* facts = RankOf(process, *model);
    if (facts != nullptr && facts->rank) of_ranks[*facts->rank] += Or0(process.private_bytes);
  });
  if (bytes > model->workers_peak.bytes) model->workers_peak = PrivateNow(t, *model, lives);
  for (const auto& [rank, own] : of_ranks) model->rank_peaks[rank] = std::max(model->rank_peaks[rank], own);
}

// Returns how many workers lived at once, at most, after `last`: a short-lived one may never be seen alive.
uint64_t MostLivingSince(absl::Duration last, const RunModel& model) {
  int living = 0;
  Changes changes;
  ForEachLately(model, [&](const ProcessModel& process) {
    if (!process.is_worker() || (process.ended && *process.ended <= last)) return;
    if (process.started > last) {
      changes.emplace_back(process.started, 1);
    } else {
      ++living;
    }
    if (process.ended) changes.emplace_back(*process.ended, -1);
  });
  return MostAtOnce(living, std::move(changes));
}

// Two moments: now, and just before the first worker that was alive at the last sample, at `last`, ended: it may have
// been killed for what it had.
void AppendWorkersPeak(absl::Duration t, absl::Duration last, RunModel* model) {
  RaisePeak(
      t, [](const ProcessModel& process) { return !process.ended; }, model);
  model->most_living_workers = std::max(model->most_living_workers, MostLivingSince(last, *model));
  const auto ended_since = [last](const ProcessModel& process) { return process.ended && *process.ended > last; };
  bool any = false;
  ForEachLately(*model, [&](const ProcessModel& process) { any |= ended_since(process); });
  if (!any) return;
  const auto lived = [&](const ProcessModel& process) {
    return process.started <= last && (!process.ended || ended_since(process));
  };
  RaisePeak(t, lived, model);
}

// Whether no process outside of the recording can map anonymous memory of `process`: its address space began with an
// exec that was followed, or with the command that cowprof started, and no fork since was missed.
bool KnowsAllSharers(const RunModel& model, const Losses& losses, const ProcessModel& process) {
  if (losses.lost_events() > 0) return false;
  if (model.info.exactness != Exactness::kExact && model.info.exactness != Exactness::kUpperBound) return false;
  const ProcessModel* root = model.Find(process.space);
  return root != nullptr && (root->execed || (root->origin == Origin::kTarget && model.info.started_target));
}

// At a fork all of the parent's memory becomes shared again. A child that called exec or ended before it could be seen
// has given everything back, or (vfork) has never shared it.
void ShareAtForks(const Sample& sample, RunModel* model) {
  for (const Event& event : sample.events) {
    const auto* started = event.As<ProcessStarted>();
    if (started == nullptr || started->origin != Origin::kForked) continue;
    ProcessModel* parent = Announced(started->parent, model);
    const ProcessModel* child = Announced(event.index, model);
    if (parent == nullptr || child == nullptr || child->execed || !child->proc.anon_pages) continue;
    const auto memory = model->private_memory.find(event.index);
    if (parent->space != child->space || memory == model->private_memory.end()) continue;
    model->settled.stale |= parent->ended.has_value();  // no real one
    if (const Count& pages = memory->second.inherited_pages())
      model->private_memory[parent->index].Fork(event.t, *pages, model->info, parent);
  }
}

// Follows the pages that become a parent's own as its children copy them. Call when the ends of the sample were added.
// Only of the outermost process of each address space: what others share with it, it shares with them.
void FollowChildren(const Sample& sample, RunModel* model) {
  absl::InlinedVector<ProcessModel*, 32> living;
  ForEachLately(*model, [&](ProcessModel& process) {
    if (process.id.pid != 0 && !process.ended) living.push_back(&process);
  });
  const auto by_space = [](const ProcessModel* a, const ProcessModel* b) { return a->space < b->space; };
  if (!absl::c_is_sorted(living, by_space)) absl::c_stable_sort(living, by_space);
  for (auto begin = living.begin(), end = begin; begin != living.end(); begin = end) {
    ProcessModel* const parent = *begin;
    CopiedShares copied;
    auto memory = model->private_memory.begin();
    for (end = begin + 1; end != living.end() && (*end)->space == parent->space; ++end) {
      memory = MemoryOf((*end)->index, memory, model);
      const double inherited = Or0(memory->second.inherited_pages());
      const double share = inherited > 0 ? std::min((*end)->inherited_copies() / inherited, 1.0) : 0;
      copied.least = std::min(copied.least, share);
      copied.product *= share;
    }
    if (end - begin > 1) model->private_memory[parent->index].Follow(sample.t, copied, model->info.page_bytes, parent);
  }
}

// When the last other process that maps its memory ends, all of a process's pages become its own, without a fault. A
// sweep sees that later, or never if the process ends first. `last`: time of the sample before.
void OwnWhatNobodyShares(absl::Duration last, const Losses& losses, RunModel* model) {
  ForEachLately(*model, [&](ProcessModel& process) {
    if (Or0(process.still_shared_bytes) == 0 || !process.private_bytes) return;
    if (process.ended && *process.ended <= last) return;
    const auto shares = [&](int index) {
      const ProcessModel* other = model->Find(index);
      return other != nullptr && other->index != process.index && other->space == process.space &&
             (!other->ended || (process.ended && *other->ended >= *process.ended));
    };
    if (std::any_of(model->lately.begin(), model->lately.end(), shares)) return;
    if (!KnowsAllSharers(*model, losses, process)) return;
    *process.private_bytes += *process.still_shared_bytes;
    process.still_shared_bytes = 0;
    process.peak_private_bytes = std::max(Or0(process.peak_private_bytes), *process.private_bytes);
  });
}

}  // namespace

Exit ExitOf(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return {.signaled = true, .code = 128 + WTERMSIG(wait_status), .signal = WTERMSIG(wait_status)};
  }
  return {.code = WEXITSTATUS(wait_status)};
}

void Append(const Sample& sample, RunModel* model) {
  const OomScene scene = SceneBefore(sample, *model);
  const double elapsed_seconds = model->samples == 0 ? 0 : absl::ToDoubleSeconds(sample.t - model->t);
  SettleEnded(model);
  Announce(sample, model);
  for (const Event& event : sample.events) {
    if (!event.Is<ProcessExited>()) AppendEvent(event, model);
  }
  if (!sample.events.empty()) AssignRoles(sample, model);
  auto memory = model->private_memory.begin();
  for (const ProcessSample& process : sample.processes) {
    ProcessModel* row = Announced(process.index, model);
    if (row == nullptr) continue;
    model->settled.stale |= row->ended.has_value();
    memory = MemoryOf(process.index, memory, model);
    AppendProcess(process, sample.t, elapsed_seconds, model->info, &memory->second, row);
    if (process.loader && process.loader != row->loader) AppendLoader(*process.loader, sample.t, model, row);
  }
  for (const Event& event : sample.events) {
    const auto* started = event.As<ProcessStarted>();
    if (started == nullptr) continue;
    ProcessModel* child = Announced(event.index, model);
    const ProcessModel* parent = Announced(started->parent, model);
    if (child != nullptr && parent != nullptr) child->parent_anon_pages = parent->proc.anon_pages;
  }
  ShareAtForks(sample, model);
  // The last counts of a process are in the same sample as its end.
  for (const Event& event : sample.events) {
    if (event.Is<ProcessExited>()) AppendEvent(event, model);
  }
  FollowChildren(sample, model);
  OwnWhatNobodyShares(model->t, sample.losses, model);
  AppendOomKills(sample, scene, model);
  AppendCopySites(sample, model);
  AppendGrowth(sample, model);
  AppendRegions(sample, model);
  if (sample.shm) AppendShm(*sample.shm, model);
  for (const LimitSample& limit : sample.limits) AppendLimit(limit, sample.t, model);
  AppendWorkersPeak(sample.t, model->t, model);
  model->losses = sample.losses;
  model->t = sample.t;
  ++model->samples;
}

void DescriptorRise::Append(absl::Duration t, absl::Duration started, uint64_t last, uint64_t now) {
  if (t >= until) *this = {.until = t + (t - started), .least = last, .before = since};
  least = std::min(least, now);
  since = std::max(since, now - least);
}

void GrowthModel::Append(absl::Duration t, uint64_t pages_now) {
  pages = pages_now;
  if (reports++ % stride != 0) return;
  if (before.size() == kMost) {
    for (size_t i = 0; i < kMost / 2; ++i) before[i] = before[2 * i];
    before.resize(kMost / 2);
    stride *= 2;
  }
  before.emplace_back(t, pages_now);
}

uint64_t GrowthModel::PagesSince(absl::Duration t) const {
  uint64_t then = 0;
  for (const auto& [told, count] : before) {
    if (told <= t) then = count;
  }
  return SaturatingSubtract(pages, then);
}

const ProcessModel* RunModel::Search(int index) const {
  const auto found = std::lower_bound(processes.begin(), processes.end(), index,
                                      [](const ProcessModel& process, int wanted) { return process.index < wanted; });
  return found != processes.end() && found->index == index ? &*found : nullptr;
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

}  // namespace cowprof
