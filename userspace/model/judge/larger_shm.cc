// How large /dev/shm may become: no larger than memory has room for.
#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "model/judge/diagnosis_facts.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr uint64_t kLargest = uint64_t{1} << 62;  // that can be doubled

// Whether what is in /dev/shm counts against this limit. Of the host's /dev/shm, a cgroup has only a part.
bool Holds(const LimitModel& memory, const LimitModel& shm) {
  return !IsCgroup(memory.now.kind) || (shm.now.used <= memory.now.used && shm.peak <= memory.peak);
}

// What a limit of memory leaves beside all that is not in /dev/shm.
uint64_t RoomIn(const LimitModel& memory, const LimitModel& shm) {
  const LimitModel held = Holds(memory, shm) ? shm : LimitModel{};
  const uint64_t others =
      std::max(SaturatingSubtract(memory.now.used, held.now.used), SaturatingSubtract(memory.peak, held.peak));
  return SaturatingSubtract(*memory.now.limit, others);
}

// Twice what a recording claims may not fit in 64 bits.
std::optional<std::string> LargerShm(const RunModel& model, bool of_container) {
  const LimitModel* const found = LimitOf(model, LimitKind::kShm);
  const LimitModel shm = found == nullptr ? LimitModel{} : *found;
  const uint64_t capacity = shm.now.limit.value_or(0);
  uint64_t bytes = std::bit_ceil(std::min(std::max({uint64_t{64} << 20, shm.peak, capacity}), kLargest) * 2);
  for (const LimitModel& limit : model.limits) {
    if (IsMemory(limit.now.kind) && limit.now.limit && (of_container || Holds(limit, shm)))
      bytes = std::min(bytes, RoomIn(limit, shm));
  }
  const uint64_t mib = bytes >> 20;
  return mib > capacity >> 20 ? std::optional(absl::StrCat(mib, "m")) : std::nullopt;
}

}  // namespace

std::optional<std::string> LargerShm(const RunModel& model) { return LargerShm(model, /*of_container=*/false); }
std::optional<std::string> LargerShmOfContainer(const RunModel& model) {
  return model.info.shm_of_host ? std::nullopt : LargerShm(model, /*of_container=*/true);
}

const char* CountsAgainstMemory(const RunModel& model) {
  const bool limited = std::any_of(model.limits.begin(), model.limits.end(),
                                   [](const LimitModel& limit) { return IsCgroup(limit.now.kind) && limit.now.limit; });
  return limited ? " What is in it counts against the memory limit, too." : "";
}

}  // namespace cowprof
