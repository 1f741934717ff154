// See oom_kill.h.
#include "model/oom_kill.h"

#include <algorithm>

namespace cowprof {
namespace {

uint64_t Less(uint64_t a, uint64_t b) { return a - std::min(a, b); }

// Pages that became its own since it is followed; some were given back.
uint64_t OwnPages(const ProcessGrowth& process) {
  return process.counts.copies.value_or(0) + process.counts.zero_fills().value_or(0);
}

// What it has of `now`, which was `before` at the sample before. Of a victim /proc shows what is left of it: there the
// sample before counts, and what it got since.
uint64_t Held(const ProcessGrowth& process, uint64_t before, uint64_t now, uint64_t since) {
  return std::max(now, process.oom_victim ? before + since : before);
}

struct Figures {
  uint64_t private_bytes = 0, grown_bytes = 0;
};

// A forked process owned nothing at first. Of others, what they had before they forked their first worker is no growth:
// they read their data then. (Their private memory says nothing: it falls at a fork, and rises as the workers copy.)
Figures FiguresOf(const ProcessGrowth& process, const OomScene& scene, const Growth& growth) {
  const auto known = scene.processes.find(process.index);
  const OomScene::Process before = known == scene.processes.end() ? OomScene::Process{} : known->second;
  const uint64_t page_bytes = growth.info.page_bytes, since = Less(OwnPages(process), before.own_pages);
  Figures figures;
  figures.private_bytes = Held(process, before.private_bytes, process.private_bytes.value_or(0), since * page_bytes);
  figures.grown_bytes = figures.private_bytes;
  if (process.origin == Origin::kForked) return figures;
  Count first = process.first_anon_pages;
  for (const ProcessGrowth& child : growth.processes) {
    if (child.parent != process.index || child.role != Role::kWorker || !child.parent_anon_pages) continue;
    first = child.parent_anon_pages;
    break;
  }
  const uint64_t anon_pages = Held(process, before.anon_pages, process.proc.anon_pages.value_or(0), since);
  figures.grown_bytes = (process.counts.copies.value_or(0) + Less(anon_pages, first.value_or(anon_pages))) * page_bytes;
  return figures;
}

}  // namespace

OomScene SceneBefore(const Sample& sample, const Growth& growth) {
  OomScene scene;
  if (std::none_of(sample.events.begin(), sample.events.end(),
                   [](const Event& event) { return event.kind == EventKind::kOomVictim; }))
    return scene;
  for (const ProcessGrowth& process : growth.processes)
    scene.processes[process.index] = {process.private_bytes.value_or(0), OwnPages(process),
                                      process.proc.anon_pages.value_or(0)};
  return scene;
}

void AppendOomKills(const Sample& sample, const OomScene& scene, Growth* growth) {
  for (const Event& event : sample.events) {
    ProcessGrowth* const victim = growth->Find(event.index);
    if (event.kind != EventKind::kOomVictim || !event.limit || victim == nullptr) continue;
    // More than the limit allows was not there: it was given back in between.
    const uint64_t most = event.limit->kind == LimitKind::kHost ? UINT64_MAX : event.limit->used;
    OomKill kill = {.t = event.t, .limit = *event.limit};
    uint64_t shared_bytes = 0;
    for (const ProcessGrowth& process : growth->processes) {
      if (process.ended && *process.ended < event.t) continue;
      const Figures figures = FiguresOf(process, scene, *growth);
      const uint64_t bytes = std::min(most, figures.private_bytes), grown = std::min(most, figures.grown_bytes);
      if (grown > kill.grower_bytes) {
        kill.grower = process.index;
        kill.grower_bytes = grown;
      }
      if (process.index == event.index) kill.victim_bytes = bytes;
      kill.recorded_bytes += bytes;
      if (process.role == Role::kWorker) {
        ++kill.workers;
        kill.workers_grown_bytes += grown;
      }
      shared_bytes = std::max(shared_bytes, process.still_shared_bytes.value_or(0));
    }
    kill.recorded_bytes += shared_bytes;
    victim->oom = kill;
  }
}

}  // namespace cowprof
