#include "model/judge/top_contributor.h"

#include <algorithm>

#include "model/judge/diagnosis_facts.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// If the followed processes gained less than this share of what the limit gained, it was something else.
constexpr double kLeastShare = 0.25;
// Each fork costs the target one copy of what it works on, which does not go on growing.
constexpr double kWeightOfTarget = 0.5;

Count AnonymousPages(const ProcessModel& process) {
  return process.proc.anon_pages ? Count(process.anonymous_pages()) : std::nullopt;
}

double Gained(const Count& then, const Count& now) { return then && now ? SaturatingSubtract(*now, *then) : 0; }

// A process that is not in `then` held nothing of its own if it was forked since; otherwise what it held is unknown.
Held HeldThen(const ProcessModel& process, const std::vector<Held>& then) {
  const auto found = std::lower_bound(then.begin(), then.end(), process.index,
                                      [](const Held& held, int index) { return held.index < index; });
  if (found != then.end() && found->index == process.index) return *found;
  const Count nothing = process.origin == Origin::kForked ? Count(0) : std::nullopt;
  return {.private_bytes = nothing,
          .shm_pages = nothing,
          .anon_pages = process.first_anon_pages ? Count(process.first_anonymous_pages()) : std::nullopt};
}

std::string LargestCause(const CauseCounts& then, const CauseCounts& now) {
  CauseCounts gained;
  for (int cause = 0; cause < kCauses; ++cause) gained[cause] = SaturatingSubtract(now[cause], then[cause]);
  return NameOf(static_cast<Cause>(std::max_element(gained.begin(), gained.end()) - gained.begin()));
}

Count ShmBytes(const RunModel& model) {
  const LimitModel* const shm = LimitOf(model, LimitKind::kShm);
  return shm == nullptr ? Count() : Count(shm->now.used);
}

BytesByCreator SegmentsOf(const RunModel& model) {
  BytesByCreator bytes;
  if (model.shm) {
    for (const ShmSegment& segment : model.shm->segments) bytes[segment.creator] += segment.bytes;
  }
  bytes.erase(0);
  return bytes;
}

// Shared memory may grow without a fault (fallocate); its segments then show which process made most of what came after
// `then`. -1: not a recorded one, or segments of such do not make up most of `risen` bytes.
int LargestCreator(const RunModel& model, const BytesByCreator& then, double risen) {
  int largest = -1;
  uint64_t most = 0;
  double recorded = 0;
  for (const auto& [pid, bytes] : SegmentsOf(model)) {
    const auto before = then.find(pid);
    const uint64_t gained = SaturatingSubtract(bytes, before == then.end() ? 0 : before->second);
    const auto creator =
        std::find_if(model.processes.begin(), model.processes.end(),
                     [pid = pid](const ProcessModel& process) { return process.id.pid == pid && !process.ended; });
    const bool known = creator != model.processes.end();
    if (known) recorded += gained;
    if (gained <= most) continue;
    most = gained;
    largest = known ? creator->index : -1;
  }
  return recorded >= kMostOfIt * risen ? largest : -1;
}

}  // namespace

HeldByAll HeldBy(const RunModel& model) {
  HeldByAll held = {.shm_bytes = ShmBytes(model), .segments = SegmentsOf(model)};
  held.processes.reserve(model.processes.size());
  for (const ProcessModel& process : model.processes) {
    held.processes.push_back({process.index, process.private_bytes, process.counts.shm_pages, AnonymousPages(process),
                              process.inherited_copies(), process.copies_of_files,
                              process.causes.value_or(CauseCounts{})});
  }
  return held;
}

TopContributor TopContributorOf(LimitKind kind, double gained, const Before& before, const RunModel& model) {
  if (kind == LimitKind::kCommit) return {};
  if (kind == LimitKind::kDescriptors || kind == LimitKind::kMappings || kind == LimitKind::kAddressSpace) {
    const LimitModel* const limit = LimitOf(model, kind);
    const ProcessModel* const holder = limit == nullptr ? nullptr : HolderOf(limit->now, model);
    return {.index = holder == nullptr ? 0 : holder->index,
            .cause = kind == LimitKind::kDescriptors ? kDescriptors
                     : kind == LimitKind::kMappings  ? kMappings
                                                     : kNewMemory};
  }
  const bool shm_only = kind == LimitKind::kShm || kind == LimitKind::kShmInodes;
  const double page_bytes = model.info.page_bytes;
  TopContributor top_contributor;
  double most = 0, faulted_shm = 0;
  for (const ProcessModel& process : model.processes) {
    if (process.ended && *process.ended < before.last_tick) continue;
    const Held then = HeldThen(process, before.held.processes);
    const double copied =
        shm_only ? 0 : SaturatingSubtract(process.inherited_copies(), then.inherited_copies) * page_bytes;
    double fresh = shm_only ? 0 : std::max(Gained(then.private_bytes, process.private_bytes) - copied, 0.0);
    // What was new long ago may be in private_bytes only now.
    if (const Count pages = AnonymousPages(process); pages && then.anon_pages)
      fresh = std::min(fresh, Gained(then.anon_pages, pages) * page_bytes);
    const double of_files = SaturatingSubtract(process.copies_of_files, then.copies_of_files) * page_bytes;
    const double shared = Gained(then.shm_pages, process.counts.shm_pages) * page_bytes;
    if (process.ended) {
      top_contributor.leaving_bytes += copied + fresh;
      continue;
    }
    top_contributor.copied_bytes += copied;
    top_contributor.gained_bytes += copied + fresh + shared;
    faulted_shm += shared;
    const double gain = (copied + fresh + shared) * (process.index == 0 ? kWeightOfTarget : 1);
    if (gain <= most) continue;
    most = gain;
    top_contributor.index = process.index;
    top_contributor.cause = shared > std::max(copied, fresh) ? kSharedMemory
                            : fresh > copied && 2 * of_files < fresh
                                ? kNewMemory
                                : LargestCause(then.causes, process.causes.value_or(CauseCounts{}));
  }
  if (shm_only) {
    if (top_contributor.index < 0) top_contributor.index = LargestCreator(model, /*then=*/{}, /*risen=*/0);
    top_contributor.cause = kSharedMemory;
    return top_contributor;
  }
  // No fault shows shared memory that was allocated (torch from 2.10 on), and none is counted by the page map. Others
  // may use the same /dev/shm: at most what the processes leave unexplained of the limit is this.
  double other_shm = std::max(Gained(before.held.shm_bytes, ShmBytes(model)) - faulted_shm, 0.0);
  if (gained > 0) other_shm = std::min(other_shm, std::max(gained - top_contributor.gained_bytes, 0.0));
  top_contributor.gained_bytes += other_shm;
  if (other_shm > most) {
    top_contributor.index = LargestCreator(model, before.held.segments, other_shm);
    top_contributor.cause = kSharedMemory;
  }
  if (top_contributor.gained_bytes < kLeastShare * gained) {
    top_contributor.index = -1;
    top_contributor.cause.clear();
  }
  return top_contributor;
}

}  // namespace cowprof
