#include "model/judge/worker_ceiling.h"

#include "absl/numeric/int128.h"

namespace cowprof {
namespace {

Outlook OutlookOf(uint64_t used, uint64_t limit) {
  if (used >= limit) return Outlook::kWillExceed;
  return static_cast<double>(used) >= kTightFrom * static_cast<double>(limit) ? Outlook::kTight : Outlook::kSafe;
}

uint64_t Saturated(absl::uint128 value) { return value > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(value); }

}  // namespace

WorkerCeiling CeilingOfWorkers(uint64_t workers, uint64_t parent_anonymous_bytes,
                               const std::vector<LimitSample>& limits) {
  WorkerCeiling ceiling = {.workers = workers, .bytes_each = parent_anonymous_bytes};
  ceiling.bytes = Saturated(absl::uint128(workers) * parent_anonymous_bytes);
  for (const LimitSample& limit : limits) {
    if (!limit.limit || !IsMemory(limit.kind)) continue;
    const uint64_t used = Saturated(absl::uint128(limit.used) + ceiling.bytes);
    ceiling.limits.push_back({limit, used, OutlookOf(used, *limit.limit)});
  }
  return ceiling;
}

}  // namespace cowprof
