// See kill_evidence.h.
#include "model/kill_evidence.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <optional>

namespace cowprof {
namespace {

uint64_t Risen(const Count& before, const Count& now) { return before && now && *now > *before ? *now - *before : 0; }

// A cgroup counts the kills among its own, whoever's limit was met: that one counted a failure. Both the nearest to the
// process.
struct Kills {
  std::optional<LimitSample> limit;  // what it held when it was met is nearly its limit
  uint64_t count = 0;
};
Kills NewKills(const std::vector<LimitSample>& before, const std::vector<LimitSample>& now) {
  Kills kills;
  for (const LimitSample& limit : now) {
    const auto same = [&](const LimitSample& one) { return one.kind == limit.kind && one.name == limit.name; };
    const auto was = std::find_if(before.begin(), before.end(), same);
    if (was == before.end()) continue;
    if (kills.count == 0) kills.count = Risen(was->kills, limit.kills);
    if (kills.limit || !limit.limit || Risen(was->failures, limit.failures) == 0) continue;
    kills.limit = limit;
    kills.limit->used = std::max(was->used, limit.used);
  }
  return kills;
}

bool WasKilled(const Event& event) {
  return event.kind == EventKind::kExit && event.status && WIFSIGNALED(*event.status) &&
         WTERMSIG(*event.status) == SIGKILL;
}

}  // namespace

std::vector<Event> OomVictims(const std::vector<LimitSample>& before, const std::vector<LimitSample>& now,
                              const std::vector<Event>& events) {
  std::vector<Event> victims;
  const Kills kills = NewKills(before, now);
  for (const Event& event : events) {
    if (!WasKilled(event)) continue;
    victims.push_back({.t = event.t, .kind = EventKind::kOomVictim, .index = event.index});
    victims.back().limit = kills.limit;
  }
  if (victims.size() > kills.count) victims.clear();
  return victims;
}

}  // namespace cowprof
