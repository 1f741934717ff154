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

// Of a victim /proc shows what is left of it: there the sample before counts, and the pages that it got since.
uint64_t PrivateBytes(const ProcessGrowth& process, const OomScene& scene, uint64_t page_bytes) {
  const bool is_new = process.index >= static_cast<int>(scene.processes.size());
  const OomScene::Process before = is_new ? OomScene::Process{} : scene.processes[process.index];
  const uint64_t now = process.private_bytes.value_or(0);
  if (!process.oom_victim) return std::max(before.private_bytes, now);
  return std::max(now, before.private_bytes + Less(OwnPages(process), before.own_pages) * page_bytes);
}

// A fork owns nothing. What was there before the recording did not grow in it.
uint64_t FirstBytes(const ProcessGrowth& process) {
  return process.origin == Origin::kForked ? 0 : process.first_private_bytes.value_or(0);
}

}  // namespace

OomScene SceneBefore(const Sample& sample, const Growth& growth) {
  OomScene scene;
  if (std::none_of(sample.events.begin(), sample.events.end(),
                   [](const Event& event) { return event.kind == EventKind::kOomVictim; }))
    return scene;
  for (const ProcessGrowth& process : growth.processes)
    scene.processes.push_back({process.private_bytes.value_or(0), OwnPages(process)});
  return scene;
}

void AppendOomKills(const Sample& sample, const OomScene& scene, Growth* growth) {
  for (const Event& event : sample.events) {
    const bool known = event.index >= 0 && event.index < static_cast<int>(growth->processes.size());
    if (event.kind != EventKind::kOomVictim || !event.limit || !known) continue;
    // More than the limit allows was not there: it was given back in between.
    const uint64_t most = event.limit->kind == LimitKind::kHost ? UINT64_MAX : event.limit->used;
    OomKill kill = {.t = event.t, .limit = *event.limit};
    uint64_t shared_bytes = 0;
    for (const ProcessGrowth& process : growth->processes) {
      if (process.ended && *process.ended < event.t) continue;
      const uint64_t bytes = std::min(most, PrivateBytes(process, scene, growth->info.page_bytes));
      const uint64_t grown = Less(bytes, FirstBytes(process));
      if (grown > kill.grower_bytes) {
        kill.grower = process.index;
        kill.grower_bytes = grown;
      }
      if (process.index == event.index) kill.victim_bytes = bytes;
      kill.recorded_bytes += bytes;
      shared_bytes = std::max(shared_bytes, process.still_shared_bytes.value_or(0));
    }
    kill.recorded_bytes += shared_bytes;
    growth->processes[event.index].oom = kill;
  }
}

}  // namespace cowprof
