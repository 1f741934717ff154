// Living processes as a recorder follows them, without a reader of their pages.
#ifndef COWPROF_TESTS_UNIT_FOLLOWED_H_
#define COWPROF_TESTS_UNIT_FOLLOWED_H_

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "source/fault_source.h"
#include "source/procfs.h"

namespace cowprof {

class NoPages : public PageReader {
 public:
  std::shared_ptr<const std::vector<AddressRange>> RangesOf(uint32_t, absl::Duration) override { return nullptr; }
  std::optional<std::vector<ExplainedPage>> Explain(uint32_t, const std::vector<uint64_t>&, absl::Duration) override {
    return std::nullopt;
  }
};

inline FollowedProcess Followed(pid_t pid, const ProcessId& parent, Origin origin, uint32_t serial) {
  const auto stat = ProcFs().ReadStat(pid);
  REQUIRE(stat.ok());
  return {.id = {pid, stat->start_ns()}, .parent = parent, .origin = origin, .serial = serial};
}

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_FOLLOWED_H_
