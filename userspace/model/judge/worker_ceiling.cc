#include "model/judge/worker_ceiling.h"

#include <algorithm>

#include "absl/numeric/int128.h"
#include "model/facts/ended_aggregate.h"
#include "model/facts/roles.h"

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

uint64_t NextWorkerBytes(const RunModel& model) {
  if (TargetIsWorker(model)) return 0;
  uint64_t of_python = 0, of_others = 0;  // pages
  ForEachLately(model, [&](const ProcessModel& process) {
    const bool forks = process.role == Role::kParent || process.role == Role::kRank || process.role == Role::kOther;
    if (process.ended || !forks) return;
    // Beside Python, a shell or a database does not fork its workers.
    const bool is_python = !process.python.empty() || !process.python_problem.empty();
    uint64_t& most = is_python ? of_python : of_others;
    most = std::max(most, process.anonymous_pages());
  });
  const uint64_t pages = of_python > 0 ? of_python : of_others;
  return Saturated(absl::uint128(pages) * model.info.page_bytes);
}

}  // namespace cowprof
