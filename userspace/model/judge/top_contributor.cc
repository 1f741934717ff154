// See grower.h.
#include "model/grower.h"

#include <algorithm>
#include <map>

namespace cowprof {
namespace {

// Below this share of what the limit gained it was somebody else.
constexpr double kLeastShare = 0.25;
// Each fork costs the target a copy of what it works on, once: that is not what goes on growing.
constexpr double kWeightOfTarget = 0.5;

double Gained(const Count& then, const Count& now) {
  return then && now && *now > *then ? static_cast<double>(*now - *then) : 0;
}

// A process that was not there then held nothing of its own, if it was forked since; otherwise that is not known.
Held HeldThen(const ProcessGrowth& process, const std::vector<Held>& then) {
  const auto found = std::lower_bound(then.begin(), then.end(), process.index,
                                      [](const Held& held, int index) { return held.index < index; });
  if (found != then.end() && found->index == process.index) return *found;
  const Count nothing = process.origin == Origin::kForked ? Count(0) : std::nullopt;
  return {.private_bytes = nothing, .shm_pages = nothing};
}

std::string LargestCause(const CauseCounts& then, const CauseCounts& now) {
  CauseCounts gained;
  for (int cause = 0; cause < kCauses; ++cause) gained[cause] = now[cause] - std::min(now[cause], then[cause]);
  return NameOf(static_cast<Cause>(std::max_element(gained.begin(), gained.end()) - gained.begin()));
}

// Shared memory may grow without a fault (fallocate): then its segments say who made them.
int LargestCreator(const Growth& growth) {
  std::map<pid_t, uint64_t> bytes;
  if (growth.shm) {
    for (const ShmSegment& segment : growth.shm->segments) bytes[segment.creator] += segment.bytes;
  }
  bytes.erase(0);
  const auto most = std::max_element(bytes.begin(), bytes.end(), [](auto& a, auto& b) { return a.second < b.second; });
  if (most == bytes.end()) return -1;
  const auto is_it = [&](const ProcessGrowth& process) { return process.id.pid == most->first && !process.ended; };
  const auto found = std::find_if(growth.processes.begin(), growth.processes.end(), is_it);
  return found == growth.processes.end() ? -1 : found->index;
}

}  // namespace

std::vector<Held> HeldBy(const Growth& growth) {
  std::vector<Held> held;
  held.reserve(growth.processes.size());
  for (const ProcessGrowth& process : growth.processes) {
    held.push_back({process.index, process.private_bytes, process.counts.shm_pages, process.counts.copies.value_or(0),
                    process.causes.value_or(CauseCounts{})});
  }
  return held;
}

Grower GrowerOf(LimitKind kind, double gained, const Before& before, const Growth& growth) {
  if (kind == LimitKind::kDescriptors) return {.index = 0, .cause = kDescriptors};
  if (kind == LimitKind::kAddressSpace) return {.index = 0, .cause = kNewMemory};
  const bool shm_only = kind == LimitKind::kShm || kind == LimitKind::kShmInodes;
  const double page_bytes = growth.info.page_bytes;
  Grower grower;
  double most = 0;
  for (const ProcessGrowth& process : growth.processes) {
    if (process.ended && *process.ended < before.last_tick) continue;
    const Held then = HeldThen(process, before.held);
    const uint64_t copies = process.counts.copies.value_or(0);
    const double copied = shm_only ? 0 : (copies - std::min(copies, then.copies)) * page_bytes;
    const double fresh = shm_only ? 0 : std::max(Gained(then.private_bytes, process.private_bytes) - copied, 0.0);
    const double shared = Gained(then.shm_pages, process.counts.shm_pages) * page_bytes;
    if (process.ended) {
      grower.leaving_bytes += copied + fresh;
      continue;
    }
    grower.copied_bytes += copied;
    grower.gained_bytes += copied + fresh + shared;
    const double gain = (copied + fresh + shared) * (process.index == 0 ? kWeightOfTarget : 1);
    if (gain <= most) continue;
    most = gain;
    grower.index = process.index;
    grower.cause = shared > std::max(copied, fresh) ? kSharedMemory
                   : fresh > copied                 ? kNewMemory
                                                    : LargestCause(then.causes, process.causes.value_or(CauseCounts{}));
  }
  if (shm_only) {
    if (grower.index < 0) grower.index = LargestCreator(growth);
    grower.cause = kSharedMemory;
  } else if (grower.gained_bytes < kLeastShare * gained) {
    grower.index = -1;
    grower.cause.clear();
  }
  return grower;
}

}  // namespace cowprof
