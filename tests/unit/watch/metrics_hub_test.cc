#include "watch/metrics_hub.h"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "sink/metrics/metrics_file.h"

namespace cowprof {

TEST_CASE("metrics hub: it has a descriptor for each recorder that --at-most allows") {
  constexpr size_t kRecorders = 256;
  auto hub = MetricsHub::Start("", std::nullopt, kRecorders);
  REQUIRE(hub.ok());
  std::vector<std::unique_ptr<MetricsFile>> recorders;
  for (uint32_t place = 0; place < kRecorders; ++place) {
    recorders.push_back(MetricsFile::Over((*hub)->Add(place)));
    const absl::Status status = recorders.back()->Open(
        "", "# HELP cowprof_recording Now.\n# TYPE cowprof_recording gauge\ncowprof_recording 1\n");
    INFO(place << ": " << status);
    REQUIRE(status.ok());
  }
  CHECK_FALSE((*hub)->HasDied());
}

}  // namespace cowprof
