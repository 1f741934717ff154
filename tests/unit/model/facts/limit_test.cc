// What identifies a limit, and what its kind says of it.
#include "model/facts/limit.h"

#include <catch2/catch.hpp>

#include "absl/container/flat_hash_set.h"

namespace cowprof {
namespace {

TEST_CASE("two samples are of one limit if kind and name agree") {
  const LimitSample limit = {LimitKind::kCgroupV2, "/job", 1000, 1};
  CHECK(limit.key() == LimitSample{LimitKind::kCgroupV2, "/job", 2000, 2}.key());
  CHECK(limit.key() != LimitSample{LimitKind::kCgroupV1, "/job", 1000, 1}.key());
  CHECK(limit.key() != LimitSample{LimitKind::kCgroupV2, "/jobs", 1000, 1}.key());
  const absl::flat_hash_set<LimitKey> keys = {limit.key(), limit.key(), {LimitKind::kHost, "/job"}};
  CHECK(keys.size() == 2);
}

TEST_CASE("a kind of limit counts bytes or files, and copies are charged to some") {
  struct Case {
    LimitKind kind;
    bool bytes, memory;
  };
  constexpr Case kCases[] = {{LimitKind::kShm, true, false},          {LimitKind::kCgroupV1, true, true},
                             {LimitKind::kCgroupV2, true, true},      {LimitKind::kHost, true, true},
                             {LimitKind::kAddressSpace, true, false}, {LimitKind::kDescriptors, false, false},
                             {LimitKind::kShmInodes, false, false},   {LimitKind::kMappings, false, false},
                             {LimitKind::kCommit, true, false}};
  CHECK(std::size(kCases) == kCountOf<LimitKind>);
  for (const auto& [kind, bytes, memory] : kCases) {
    INFO(NameOf(kind));
    CHECK(CountsBytes(kind) == bytes);
    CHECK(LimitSample{.kind = kind}.unit() == std::string(bytes ? "bytes" : "count"));
    CHECK(IsMemory(kind) == memory);
  }
}

}  // namespace
}  // namespace cowprof
