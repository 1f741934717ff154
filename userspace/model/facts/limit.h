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

enum class LimitKind { kShm, kCgroupV1, kCgroupV2, kHost, kAddressSpace, kDescriptors, kShmInodes };
template <>
inline constexpr auto kNamesOf<LimitKind> = NamesFor<LimitKind>("shm", "cgroup-v1", "cgroup-v2", "host",
                                                                "address-space", "fds", "shm-inodes");

inline bool IsCgroup(LimitKind kind) { return kind == LimitKind::kCgroupV1 || kind == LimitKind::kCgroupV2; }

// Limits on memory in use. Copies are charged to these and to no other: a copy needs no address space, no descriptor
// and no room in shared memory.
inline bool IsMemory(LimitKind kind) { return IsCgroup(kind) || kind == LimitKind::kHost; }

// The others count files.
inline bool CountsBytes(LimitKind kind) { return kind != LimitKind::kDescriptors && kind != LimitKind::kShmInodes; }

// What makes two samples samples of one limit.
struct LimitKey {
  LimitKind kind = LimitKind::kHost;
  std::string name;
  auto operator<=>(const LimitKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const LimitKey& key) {
    return H::combine(std::move(h), key.kind, key.name);
  }
};

// One limit at one instant, as the target meets it. `limit` absent: none is set. `used` of memory is what can't be
// given back: page cache and reclaimable slabs are left out.
struct LimitSample {
  LimitKind kind = LimitKind::kHost;
  std::string name;  // mount point, cgroup path, "MemTotal+SwapTotal", "RLIMIT_NOFILE"
  Count limit;
  uint64_t used = 0;
  // Of cgroups, cumulative since they were made: how often memory was asked for and the limit was met (v1 failcnt, v2
  // max of memory.events), and the processes in it that the OOM killer ended.
  Count failures, kills;
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
