// A limit that the target can meet: its kind, what identifies it, and how full it is at one instant. Plain data.
#ifndef COWPROF_MODEL_FACTS_LIMIT_H_
#define COWPROF_MODEL_FACTS_LIMIT_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "model/facts/count.h"
#include "model/facts/enum_names.h"

namespace cowprof {

enum class LimitKind { kShm, kCgroupV1, kCgroupV2, kHost, kAddressSpace, kDescriptors, kShmInodes, kMappings, kCommit };
template <>
inline constexpr auto kNamesOf<LimitKind> = NamesFor<LimitKind>("shm", "cgroup-v1", "cgroup-v2", "host",
                                                                "address-space", "fds", "shm-inodes", "mappings",
                                                                "commit");

inline bool IsCgroup(LimitKind kind) { return kind == LimitKind::kCgroupV1 || kind == LimitKind::kCgroupV2; }

// Limits on memory in use. Copies are charged to these and to no others: a copy takes no address space, no descriptor
// and no room in shared memory.
inline bool IsMemory(LimitKind kind) { return IsCgroup(kind) || kind == LimitKind::kHost; }

// The other kinds count files or mappings.
inline bool CountsBytes(LimitKind kind) {
  return kind != LimitKind::kDescriptors && kind != LimitKind::kShmInodes && kind != LimitKind::kMappings;
}

// Identifies a limit: samples with equal keys are of the same limit.
struct LimitKey {
  LimitKind kind = LimitKind::kHost;
  std::string name;
  auto operator<=>(const LimitKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const LimitKey& key) {
    return H::combine(std::move(h), key.kind, key.name);
  }
};

// One limit at one instant, as it applies to the target, or (kAddressSpace, kDescriptors) to the process of its tree
// that is nearest to its own. `limit` absent: none is set, or the target has left
// it. For memory, `used` leaves out what can be given back: page cache and reclaimable slabs.
struct LimitSample {
  LimitKind kind = LimitKind::kHost;
  std::string name;  // mount point, cgroup path, "MemTotal+SwapTotal", "RLIMIT_NOFILE"
  Count limit;
  uint64_t used = 0;
  // Of cgroups only, cumulative since creation: how often an allocation met the limit (v1 failcnt, v2 max of
  // memory.events), which reclaiming page cache may have settled; how many processes in it the OOM killer ended; and,
  // of v2 only, how often nothing could be reclaimed (oom of memory.events).
  Count failures, kills, ooms;
  bool operator==(const LimitSample&) const = default;

  LimitKey key() const { return {kind, name}; }
  bool counts_bytes() const { return CountsBytes(kind); }
  const char* unit() const { return counts_bytes() ? "bytes" : "count"; }
  std::optional<double> ratio() const {
    if (!limit || *limit == 0) return std::nullopt;
    return static_cast<double>(used) / static_cast<double>(*limit);
  }
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_LIMIT_H_
