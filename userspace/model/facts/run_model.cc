// Derives every process's memory figures from raw samples. One formula lives in one place, and the place is here.
#include "model/growth.h"

#include <string.h>
#include <sys/wait.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/fold.h"
#include "model/oom_kill.h"
#include "model/saturated.h"

namespace cowprof {
namespace {

// How multiprocessing's processes look from outside (Lib/multiprocessing/popen_*.py, 3.6 to 3.14).
Role RoleOf(const ProcessGrowth& process, const Growth& growth) {
  if (process.index == 0) return Role::kParent;
  const std::string& command = process.command;
  if (absl::StrContains(command, "multiprocessing.resource_tracker") ||
      absl::StrContains(command, "multiprocessing.semaphore_tracker") ||
      absl::StartsWith(process.comm, "torch_shm_mana")) {
    return Role::kHelper;
  }
  const ProcessGrowth* parent = growth.Find(process.parent);
  if (absl::StrContains(command, "multiprocessing.forkserver")) {
    // What it forks, and what that forks, has its command line.
    const bool inherited =
        !process.execed && parent != nullptr && absl::StrContains(parent->command, "multiprocessing.forkserver");
    return inherited ? Role::kWorker : Role::kForkserver;
  }
  if (absl::StrContains(command, "--multiprocessing-fork")) return Role::kWorker;
  if (process.execed) return Role::kOther;
  // A process that was there at attach may have called exec before: then it has another command line than its parent.
  const bool same_image = process.origin == Origin::kForked || (parent != nullptr && parent->command == command);
  return same_image ? Role::kWorker : Role::kOther;
}

uint64_t Or0(const Count& count) { return count.value_or(0); }

// `base` + rise of a counter - its fall, never below 0.
uint64_t Moved(uint64_t base, uint64_t then, uint64_t now) {
  return now >= then ? base + (now - then) : base - std::min(base, then - now);
}

// What a counter rose by; one that fell or is gone rose by nothing.
uint64_t Rise(uint64_t then, uint64_t now) { return now - std::min(now, then); }

// A forked child owns no anonymous page at first. How many it inherited: what it has now, less what was new since. One
// that ended between two ticks was never seen in /proc: then what it inherited stays unknown, and what was new counts
// as kept.
ProcessGrowth::Basis BasisAtFork(const ProcessGrowth& process) {
  const uint64_t fresh = Or0(process.counts.zero_fills()) + Or0(process.counts.file_copies);
  if (!process.proc.anon_pages) return {.private_pages = fresh};
  const uint64_t now = *process.proc.anon_pages;
  return {.anon_pages = now - std::min(now, fresh)};
}

// A sweep takes a while and finds each page as it is when it comes by: on average as of its middle.
ProcessGrowth::Past PastAt(absl::Duration t, const ProcessGrowth& process) {
  const std::vector<ProcessGrowth::Past>& past = process.past;
  const auto after = std::find_if(past.begin(), past.end(), [&](const auto& one) { return one.t >= t; });
  if (after == past.end()) return past.back();
  if (after == past.begin()) return *after;
  const ProcessGrowth::Past& before = *std::prev(after);
  const double part = absl::FDivDuration(t - before.t, after->t - before.t);
  const auto between = [&](uint64_t a, uint64_t b) {
    return SaturatedCount(a + part * (static_cast<double>(b) - static_cast<double>(a)) + 0.5);
  };
  return {t, between(before.copies, after->copies), between(before.anon_pages, after->anon_pages)};
}

constexpr size_t kLongestPast = 1024, kMostSignals = 16, kMostUnlinked = 16;

absl::Duration MiddleOf(const SweepFigures& sweep) { return (sweep.begin + sweep.end) / 2; }

// A sweep of the touched regions updates what a full one found, and a forked child owned nothing before it touched. A
// busy machine may stop cowprof between the counters of a sample and its sweep: what was copied in between is known
// with the next sample only, and the past is kept until then.
void RebaseOnSweep(Exactness exactness, ProcessGrowth* process) {
  const SweepFigures& sweep = *process->sweep;
  const bool timed = sweep.end > absl::ZeroDuration();
  const ProcessGrowth::Past then = timed ? PastAt(MiddleOf(sweep), *process) : process->past.back();
  // Where copies are known from sweeps alone, those of this one stand in this very sample.
  const uint64_t copies = exactness == Exactness::kPageMap ? process->past.back().copies : then.copies;
  process->anonymous = {sweep.private_pages, copies, then.anon_pages};
  if (!timed || MiddleOf(sweep) <= process->past.back().t) process->past.clear();
}

void RebaseOnTruth(const ProcessSample& sample, const RunInfo& info, ProcessGrowth* process) {
  const uint64_t copies = Or0(process->counts.copies), anon_pages = Or0(process->proc.anon_pages);
  const bool forked = process->origin == Origin::kForked && !process->execed;
  if (forked && (!process->anonymous || !process->seen) && process->counts.copies)
    process->anonymous = BasisAtFork(*process);
  process->seen |= process->proc.anon_pages.has_value();
  if (sample.sweep) {
    process->sweep = sample.sweep;
    const uint64_t total_bytes = process->private_bytes.value_or(0),
                   anonymous_bytes = sample.sweep->private_pages * info.page_bytes;
    // The rollup at attach is older than the first sweep: what it found beyond the sweep's pages are private pages of
    // files.
    if (!process->anonymous && process->rollup_basis)
      process->private_other_bytes = total_bytes - std::min(total_bytes, anonymous_bytes);
    RebaseOnSweep(info.exactness, process);
  } else if (process->sweep && process->past.size() >= 2 &&
             MiddleOf(*process->sweep) > process->past[process->past.size() - 2].t) {
    RebaseOnSweep(info.exactness, process);
  }
  if (sample.rollup) {
    process->rollup = sample.rollup;
    process->rollup_basis = {sample.rollup->private_bytes, copies, anon_pages};
  }
}

void DeriveMemory(uint64_t page_bytes, ProcessGrowth* process) {
  const uint64_t copies = Or0(process->counts.copies), anon_pages = Or0(process->proc.anon_pages);
  if (const auto& basis = process->anonymous) {
    uint64_t private_pages = Moved(basis->private_pages, basis->anon_pages, anon_pages) + Rise(basis->copies, copies);
    if (process->proc.anon_pages) {
      private_pages = std::min(private_pages, std::max(anon_pages, basis->private_pages));
      process->still_shared_bytes = (anon_pages - std::min(anon_pages, private_pages)) * page_bytes;
    }
    process->private_bytes = private_pages * page_bytes + process->private_other_bytes;
  } else if (const auto& rollup = process->rollup_basis) {
    process->private_bytes = Moved(rollup->private_bytes, rollup->anon_pages * page_bytes, anon_pages * page_bytes) +
                             Rise(rollup->copies, copies) * page_bytes;
  }
  if (process->rollup) process->pss_bytes = process->rollup->pss_bytes;
  if (process->private_bytes) {
    process->peak_private_bytes = std::max(Or0(process->peak_private_bytes), *process->private_bytes);
  }
}

// New memory is what RssAnon rises by: a copy leaves it alone. Pages that went to swap are there still, and first
// writes to private file mappings only make file pages anonymous.
MemoryHistory::Stretch StretchAt(absl::Duration t, const ProcessGrowth& process) {
  const uint64_t anonymous = Or0(process.proc.anon_pages) + Or0(process.proc.swap_pages);
  return {.t = t,
          .new_pages = Rise(Or0(process.counts.file_copies), anonymous),
          .file_pages = Or0(process.proc.file_pages),
          .private_bytes = Or0(process.private_bytes)};
}

void AppendProcess(const ProcessSample& sample, absl::Duration t, absl::Duration elapsed, const RunInfo& info,
                   ProcessGrowth* process) {
  const uint64_t copied = Rise(Or0(process->counts.copies), Or0(sample.counts.copies));
  process->copies_per_second = elapsed > absl::ZeroDuration() ? copied / absl::ToDoubleSeconds(elapsed) : 0;
  process->counts = sample.counts;
  if (sample.causes) process->causes = sample.causes;
  if (sample.verify) process->verify = sample.verify;
  if (sample.collector_on) process->collector_on = sample.collector_on;
  if (sample.persistent) process->persistent = sample.persistent;
  // The last row of a process that ended has counts only: /proc had nothing left to say.
  if (sample.proc.anon_pages) process->proc = sample.proc;
  if (sample.proc.descriptors) process->peak_descriptors = std::max(process->peak_descriptors, sample.proc.descriptors);
  if (!process->first_anon_pages) process->first_anon_pages = sample.proc.anon_pages;
  if (process->past.size() == kLongestPast) process->past.erase(process->past.begin());
  process->past.push_back({t, Or0(process->counts.copies), Or0(process->proc.anon_pages)});
  RebaseOnTruth(sample, info, process);
  DeriveMemory(info.page_bytes, process);
  if (sample.rollup && process->anonymous) {
    const uint64_t anonymous = *process->private_bytes - process->private_other_bytes;
    process->private_other_bytes = sample.rollup->private_bytes - std::min(sample.rollup->private_bytes, anonymous);
    DeriveMemory(info.page_bytes, process);
  }
  if (sample.proc.anon_pages) process->history.Add(StretchAt(t, *process));
}

// nullptr if nothing was said of it yet.
ProcessGrowth* Announced(int index, Growth* growth) {
  ProcessGrowth* process = growth->Find(index);
  return process != nullptr && process->id.pid != 0 ? process : nullptr;
}

void StartProcess(const Event& event, Growth* growth) {
  ProcessGrowth* const found = growth->Find(event.index);
  if (found == nullptr) return;
  ProcessGrowth& process = *found;
  process = {.index = event.index,
             .id = event.id,
             .parent = event.parent,
             .origin = event.origin,
             .comm = event.comm,
             .command = event.command,
             .started = event.t};
  process.role = RoleOf(process, *growth);
  process.space = event.index;
  if (event.space < 0 || event.space >= event.index) return;
  process.space = event.space;
  const ProcessGrowth* origin = growth->Find(event.space);
  if (origin == nullptr) return;
  process.python = origin->python;
  process.python_problem = origin->python_problem;
}

// Shares a run of pages among the regions of its address space that it lies in; what lies in none is left out.
void AppendRun(const PageRun& run, const Growth& growth, ProcessGrowth* process) {
  const uint64_t page_bytes = growth.info.page_bytes, end = (run.first_page + run.pages) * page_bytes;
  auto next = growth.regions_by_start.upper_bound({process->space, run.first_page * page_bytes});
  if (next != growth.regions_by_start.begin()) --next;
  for (; next != growth.regions_by_start.end() && next->first < std::make_pair(process->space, end); ++next) {
    if (next->first.first != process->space) continue;
    const Region& region = growth.regions[next->second].region;
    const uint64_t from = std::max(region.start, run.first_page * page_bytes), to = std::min(region.end, end);
    if (from < to) process->copied_pages[next->second] += (to - from) / page_bytes;
  }
}

void AppendRegions(const Sample& sample, Growth* growth) {
  for (const NumberedRegion& region : sample.new_regions) {
    growth->regions_by_start[{region.index, region.region.start}] = static_cast<int>(growth->regions.size());
    growth->regions.push_back(region);
  }
  for (const RegionCount& count : sample.regions) {
    const bool known = count.region >= 0 && count.region < static_cast<int>(growth->regions.size());
    ProcessGrowth* process = Announced(count.index, growth);
    if (known && process != nullptr) process->regions[count.region] = count;
  }
  for (const RegionHeads& heads : sample.heads) growth->heads[heads.region] = heads;
  for (const PageRun& run : sample.pages) {
    if (ProcessGrowth* process = Announced(run.index, growth)) AppendRun(run, *growth, process);
  }
}

void AppendPlaces(const Sample& sample, Growth* growth) {
  growth->frames.insert(growth->frames.end(), sample.new_frames.begin(), sample.new_frames.end());
  growth->places.insert(growth->places.end(), sample.new_places.begin(), sample.new_places.end());
  for (const PlaceCount& count : sample.places) {
    const bool known = count.place >= 0 && count.place < static_cast<int>(growth->places.size());
    ProcessGrowth* process = Announced(count.index, growth);
    if (known && process != nullptr) process->places[count.place] = count;
  }
  if (sample.cause_evidence) growth->cause_evidence = *sample.cause_evidence;
}

void AppendShm(const ShmSample& sample, Growth* growth) {
  for (const ShmSegment& segment : sample.segments) {
    const auto same = [&](const ShmSegment& known) {
      return known.device == segment.device && known.inode == segment.inode;
    };
    const bool is_new = std::none_of(growth->shm_unlinked.begin(), growth->shm_unlinked.end(), same);
    if (segment.lost_name && is_new && growth->shm_unlinked.size() < kMostUnlinked)
      growth->shm_unlinked.push_back(segment);
  }
  growth->shm = sample;
  if (!growth->shm_peak || sample.used_bytes >= growth->shm_peak->used_bytes) growth->shm_peak = sample;
}

void AppendEvent(const Event& event, Growth* growth) {
  if (event.kind == EventKind::kProcess) return StartProcess(event, growth);
  ProcessGrowth* const found = Announced(event.index, growth);
  if (found == nullptr) return;
  ProcessGrowth& process = *found;
  if (event.kind == EventKind::kPython) {
    process.python = event.python;
    process.python_problem = event.text;
  } else if (event.kind == EventKind::kExec) {
    process.python.clear();
    process.space = event.index;
    process.regions.clear();
    process.python_problem.clear();
    process.comm = event.comm;
    process.command = event.command;
    process.execed = true;
    process.role = RoleOf(process, *growth);
    // A new address space: nothing inherited, everything its own.
    process.anonymous = {.copies = Or0(process.counts.copies)};
    process.first_anon_pages = 0;
    process.rollup_basis.reset();
    process.rollup.reset();
    process.sweep.reset();
    process.pss_bytes.reset();
    process.private_other_bytes = 0;
    process.history = {};
    process.collector_on.reset();
    process.persistent.reset();
  } else if (event.kind == EventKind::kSignalSent || event.kind == EventKind::kSignalDelivered) {
    if (process.signals.size() == kMostSignals) process.signals.erase(process.signals.begin());
    process.signals.push_back(event);
  } else if (event.kind == EventKind::kOomVictim) {
    process.oom_victim = true;
  } else if (event.kind == EventKind::kExit) {
    process.ended = event.t;
    if (event.status) process.exit = ExitOf(*event.status);
    process.copies_per_second = 0;
    process.past = {};
    process.history.stretches.shrink_to_fit();
  }
}

}  // namespace

Exit ExitOf(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return {.signaled = true, .code = 128 + WTERMSIG(wait_status), .signal = WTERMSIG(wait_status)};
  }
  return {.code = WEXITSTATUS(wait_status)};
}

void Append(const Sample& sample, Growth* growth) {
  const OomScene scene = SceneBefore(sample, *growth);
  const absl::Duration elapsed = growth->samples == 0 ? absl::ZeroDuration() : sample.t - growth->t;
  // Indexes are dense, but those of one sample may come in any order: there is room for as many as it announces.
  const auto is_new = [known = growth->announced](const Event& event) {
    return event.kind == EventKind::kProcess && event.index >= known;
  };
  for (auto count = std::count_if(sample.events.begin(), sample.events.end(), is_new); count > 0; --count)
    growth->processes.push_back({.index = growth->announced++});
  for (const Event& event : sample.events) {
    if (event.kind != EventKind::kExit) AppendEvent(event, growth);
  }
  for (const ProcessSample& process : sample.processes) {
    if (ProcessGrowth* row = Announced(process.index, growth))
      AppendProcess(process, sample.t, elapsed, growth->info, row);
  }
  for (const Event& event : sample.events) {
    if (event.kind != EventKind::kProcess) continue;
    ProcessGrowth* child = Announced(event.index, growth);
    const ProcessGrowth* parent = Announced(event.parent, growth);
    if (child != nullptr && parent != nullptr) child->parent_anon_pages = parent->proc.anon_pages;
  }
  // The last counts of a process stand in the same sample as its end.
  for (const Event& event : sample.events) {
    if (event.kind == EventKind::kExit) AppendEvent(event, growth);
  }
  AppendOomKills(sample, scene, growth);
  AppendPlaces(sample, growth);
  AppendRegions(sample, growth);
  if (sample.shm) AppendShm(*sample.shm, growth);
  growth->alerts.insert(growth->alerts.end(), sample.alerts.begin(), sample.alerts.end());
  for (const LimitSample& limit : sample.limits) {
    const auto same = [&](const LimitGrowth& known) {
      return known.now.kind == limit.kind && known.now.name == limit.name;
    };
    auto known = std::find_if(growth->limits.begin(), growth->limits.end(), same);
    if (known == growth->limits.end()) known = growth->limits.insert(known, LimitGrowth{});
    known->now = limit;
    known->peak = std::max(known->peak, limit.used);
    known->peak_ratio = std::max(known->peak_ratio, limit.ratio().value_or(0));
  }
  const uint64_t workers_private_bytes = SumOf(*growth, /*living_only=*/true, /*workers_only=*/true).private_bytes;
  growth->peak_workers_private_bytes = std::max(growth->peak_workers_private_bytes, workers_private_bytes);
  growth->losses = sample.losses;
  growth->t = sample.t;
  ++growth->samples;
  Remember(sample, *growth, &growth->history);
  Fold(growth);
}

const ProcessGrowth* Growth::Find(int index) const {
  const auto found = std::lower_bound(processes.begin(), processes.end(), index,
                                      [](const ProcessGrowth& process, int wanted) { return process.index < wanted; });
  return found != processes.end() && found->index == index ? &*found : nullptr;
}

const char* NameOf(Cause cause) {
  constexpr const char* kNames[] = {"refcount", "gc_header", "allocator", "bytecode", "hash",
                                    "data",     "free",      "kernel",    "unknown"};
  return kNames[static_cast<int>(cause)];
}

const char* NameOf(RegionKind kind) {
  constexpr const char* kNames[] = {"pymalloc-arena", "heap", "mmap", "file", "stack", "other"};
  return kNames[static_cast<int>(kind)];
}

const char* NameOf(Role role) {
  constexpr const char* kNames[] = {"parent", "worker", "forkserver", "helper", "other"};
  return kNames[static_cast<int>(role)];
}

const char* NameOf(LimitKind kind) {
  constexpr const char* kNames[] = {"shm", "cgroup-v1", "cgroup-v2", "host", "address-space", "fds", "shm-inodes"};
  return kNames[static_cast<int>(kind)];
}

const char* NameOf(Exactness exactness) {
  constexpr const char* kNames[] = {"exact", "upper-bound", "sampled", "page-map", "unavailable"};
  return kNames[static_cast<int>(exactness)];
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

}  // namespace cowprof
