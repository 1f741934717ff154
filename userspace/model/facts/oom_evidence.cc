// Finds victims by the counts of cgroups, and what every process held when the OOM killer chose.
#include "model/facts/oom_evidence.h"

#include <signal.h>

#include <algorithm>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "model/facts/bad_end.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// ---- Which process was the victim ----

uint64_t Risen(const Count& before, const Count& now) { return before && now ? SaturatingSubtract(*now, *before) : 0; }

// Where the OOM killer is at work, what is in use is at least this share of what there is.
constexpr double kNearLimit = 0.9, kHostNearlyFull = 0.8;

const LimitSample* HostIn(const std::vector<LimitSample>& limits) {
  const auto host = std::find_if(limits.begin(), limits.end(),
                                 [](const LimitSample& limit) { return limit.kind == LimitKind::kHost; });
  return host == limits.end() ? nullptr : &*host;
}

// Whether the host may have run out of memory. True if that is not known.
bool MayBeHost(const std::vector<LimitSample>& before, const std::vector<LimitSample>& now) {
  const LimitSample* was = HostIn(before);
  const LimitSample* is = HostIn(now);
  const double ratio =
      std::max(was == nullptr ? 0 : was->ratio().value_or(0), is == nullptr ? 0 : is->ratio().value_or(0));
  return ratio == 0 || ratio >= kHostNearlyFull;
}

// Whether the cgroup ran out of memory. v1 counts only that its limit was met, which reclaiming page cache settles.
bool RanOut(const LimitSample& was, const LimitSample& now, bool may_be_host) {
  if (!now.limit) return false;
  if (now.ooms) return Risen(was.ooms, now.ooms) > 0;
  if (Risen(was.failures, now.failures) == 0) return false;
  return !may_be_host || std::max(was.used, now.used) >= kNearLimit * *now.limit;
}

// The cgroup that the process is in; null: none is known.
const LimitSample* InnermostIn(const std::vector<LimitSample>& limits) {
  const auto cgroup =
      std::find_if(limits.begin(), limits.end(), [](const LimitSample& limit) { return IsCgroup(limit.kind); });
  return cgroup == limits.end() ? nullptr : &*cgroup;
}

// A cgroup counts the kills among its own processes, whichever cgroup ran out of memory. Takes the nearest to the
// process for each. One of v2 counts those in all cgroups below it, too: of kills only that of the process itself
// tells.
struct Kills {
  std::optional<LimitSample> limit;  // `used`: the larger of both looks, since it was nearly full when it was met
  uint64_t count = 0;
};
Kills NewKills(const std::vector<LimitSample>& before, const std::vector<LimitSample>& now) {
  Kills kills;
  const bool may_be_host = MayBeHost(before, now);
  const LimitSample *inner_before = InnermostIn(before), *inner = InnermostIn(now);
  const bool stayed = inner_before != nullptr && inner != nullptr && inner_before->key() == inner->key();
  for (const LimitSample& limit : now) {
    const auto same = [&](const LimitSample& one) { return one.key() == limit.key(); };
    const auto was = std::find_if(before.begin(), before.end(), same);
    if (was == before.end()) continue;
    const bool may_be_of_others = limit.kind == LimitKind::kCgroupV2 && !(stayed && &limit == inner);
    if (kills.count == 0 && !may_be_of_others) kills.count = Risen(was->kills, limit.kills);
    if (kills.limit || !RanOut(*was, limit, may_be_host)) continue;
    kills.limit = limit;
    kills.limit->used = std::max(was->used, limit.used);
  }
  return kills;
}

bool WasKilled(const Event& event) {
  const auto* exited = event.As<ProcessExited>();
  return exited != nullptr && exited->status && ExitOf(*exited->status).signal == SIGKILL;
}

// ---- What each process held ----

// Pages that became the process's own since it was first followed, including those given back since.
uint64_t OwnPages(const ProcessModel& process) {
  return process.counts.copies.value_or(0) + process.counts.zero_fills().value_or(0);
}

// How much the process held at the kill: `before` at the sample before it, `now` at the sample with it, `since` gained
// in between. A victim's /proc shows only what is left, so `before` and `since` stand in for it.
uint64_t Held(bool victim, uint64_t before, uint64_t now, uint64_t since) {
  return std::max(now, victim ? before + since : before);
}

// Whether an OOM daemon sent a signal.
bool IsFromOomDaemon(const Event& event) {
  const auto* sent = event.As<SignalSent>();
  return sent != nullptr && IsFromOomDaemon(*sent);
}

struct Figures {
  uint64_t private_bytes = 0, grown_bytes = 0;
};

// Anonymous pages that a process had when it forked its first worker, by its index.
using PagesAtFork = absl::flat_hash_map<int, uint64_t>;

PagesAtFork PagesAtFirstForks(const RunModel& model) {
  PagesAtFork pages;
  for (const ProcessModel& child : model.processes) {
    if (child.is_worker() && child.parent_anon_pages) pages.emplace(child.parent, *child.parent_anon_pages);
  }
  return pages;
}

// A forked process owned nothing at first, nor did a program when it was called. What any other process, or a program
// with workers, had before it forked its first worker is not growth: it was reading its data. (Its private memory says
// nothing: it falls at a fork, and rises as the workers copy.)
Figures FiguresOf(const ProcessModel& process, bool victim, const OomScene& scene, const PagesAtFork& at_fork,
                  uint64_t page_bytes) {
  const auto known = scene.processes.find(process.index);
  const OomScene::Process before = known == scene.processes.end() ? OomScene::Process{} : known->second;
  const uint64_t since = SaturatingSubtract(OwnPages(process), before.own_pages);
  Figures figures;
  figures.private_bytes = Held(victim, before.private_bytes, process.private_bytes.value_or(0), since * page_bytes);
  figures.grown_bytes = figures.private_bytes;
  const auto forked = at_fork.find(process.index);
  if (process.origin == Origin::kForked && (!process.execed || forked == at_fork.end())) return figures;
  const Count first = forked != at_fork.end() ? Count(forked->second) : process.first_anon_pages;
  const uint64_t anon_pages = Held(victim, before.anon_pages, process.proc.anon_pages.value_or(0), since);
  figures.grown_bytes =
      (process.shared_copies() + SaturatingSubtract(anon_pages, first.value_or(anon_pages))) * page_bytes;
  return figures;
}

// Of all processes, in their order.
std::vector<Figures> AllFigures(const Sample& sample, const OomScene& scene, const RunModel& model) {
  const PagesAtFork at_fork = PagesAtFirstForks(model);
  std::set<int> signaled;  // by an OOM daemon
  for (const Event& event : sample.events) {
    if (IsFromOomDaemon(event)) signaled.insert(event.index);
  }
  std::vector<Figures> figures;
  figures.reserve(model.processes.size());
  for (const ProcessModel& process : model.processes) {
    const bool victim = process.oom_victim || signaled.contains(process.index);
    figures.push_back(FiguresOf(process, victim, scene, at_fork, model.info.page_bytes));
  }
  return figures;
}

}  // namespace

std::vector<Event> OomVictims(const std::vector<LimitSample>& before, const std::vector<LimitSample>& now,
                              const std::vector<Event>& events) {
  std::vector<Event> victims;
  const Kills kills = NewKills(before, now);
  for (const Event& event : events) {
    if (WasKilled(event)) victims.push_back({.t = event.t, .index = event.index, .what = OomVictim{kills.limit}});
  }
  if (victims.size() > kills.count) victims.clear();
  return victims;
}

OomScene SceneBefore(const Sample& sample, const RunModel& model) {
  OomScene scene;
  if (std::none_of(sample.events.begin(), sample.events.end(),
                   [](const Event& event) { return event.Is<OomVictim>() || IsFromOomDaemon(event); }))
    return scene;
  for (const ProcessModel& process : model.processes)
    scene.processes[process.index] = {process.private_bytes.value_or(0), OwnPages(process),
                                      process.proc.anon_pages.value_or(0)};
  return scene;
}

void AppendOomKills(const Sample& sample, const OomScene& scene, RunModel* model) {
  std::vector<Figures> figures;  // the same for all victims: a group is killed together
  for (const Event& event : sample.events) {
    const auto* chosen = event.As<OomVictim>();
    ProcessModel* const victim = model->Find(event.index);
    if (victim == nullptr) continue;
    const bool by_daemon = IsFromOomDaemon(event);
    if (!by_daemon && (chosen == nullptr || !chosen->limit || !victim->oom_victim)) continue;
    OomKill kill = {.t = event.t, .limit = by_daemon ? LimitSample{.kind = LimitKind::kHost} : *chosen->limit};
    // No process held more than the limit at once: the excess was given back in between.
    const uint64_t most = kill.limit.kind == LimitKind::kHost ? UINT64_MAX : kill.limit.used;
    std::map<int, uint64_t> shared_bytes;  // by address space: what its processes share with each other, once
    if (figures.empty()) figures = AllFigures(sample, scene, *model);
    for (size_t i = 0; i < figures.size(); ++i) {
      const ProcessModel& process = model->processes[i];
      if (process.ended && *process.ended < event.t) continue;
      const uint64_t bytes = std::min(most, figures[i].private_bytes), grown = std::min(most, figures[i].grown_bytes);
      if (grown > kill.top_contributor_bytes) {
        kill.top_contributor = process.index;
        kill.top_contributor_bytes = grown;
      }
      if (process.index == event.index) kill.victim_bytes = bytes;
      kill.recorded_bytes += bytes;
      if (process.is_worker()) {
        ++kill.workers;
        kill.workers_grown_bytes += grown;
      }
      uint64_t& shared = shared_bytes[process.space];
      shared = std::max(shared, process.still_shared_bytes.value_or(0));
    }
    for (const auto& [space, bytes] : shared_bytes) kill.recorded_bytes += bytes;
    (by_daemon ? victim->oom_daemon : victim->oom) = kill;
  }
}

}  // namespace cowprof
