// See kill_evidence.h.
#include "model/kill_evidence.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <optional>

namespace cowprof {
namespace {

// The cgroup whose limit was met, nearest to the process; what it held when it was met is nearly its limit.
struct Kills {
  LimitSample limit;
  uint64_t count = 0;
};
std::optional<Kills> NewKills(const std::vector<LimitSample>& before, const std::vector<LimitSample>& now) {
  for (const LimitSample& limit : now) {
    const auto same = [&](const LimitSample& one) { return one.kind == limit.kind && one.name == limit.name; };
    const auto was = std::find_if(before.begin(), before.end(), same);
    if (was == before.end() || !limit.limit || !limit.kills || !was->kills || *limit.kills <= *was->kills) continue;
    Kills kills = {limit, *limit.kills - *was->kills};
    kills.limit.used = std::max(was->used, limit.used);
    return kills;
  }
  return std::nullopt;
}

bool WasKilled(const Event& event) {
  return event.kind == EventKind::kExit && event.status && WIFSIGNALED(*event.status) &&
         WTERMSIG(*event.status) == SIGKILL;
}

}  // namespace

std::vector<Event> OomVictims(const std::vector<LimitSample>& before, const std::vector<LimitSample>& now,
                              const std::vector<Event>& events) {
  std::vector<Event> victims;
  const std::optional<Kills> kills = NewKills(before, now);
  if (!kills) return victims;
  for (const Event& event : events) {
    if (!WasKilled(event)) continue;
    victims.push_back({.t = event.t, .kind = EventKind::kOomVictim, .index = event.index});
    victims.back().limit = kills->limit;
  }
  if (victims.size() > kills->count) victims.clear();
  return victims;
}

}  // namespace cowprof
