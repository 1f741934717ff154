// The data of a fleet page, read back: the rows of the report, and a curve a row on the clock of its host.
#include "sink/page/fleet_page.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_join.h"
#include "page_reading.h"
#include "sink/report/fleet_report.h"

namespace cowprof {

TEST_CASE("a fleet page has the rows of the report, in their order, and a curve for each") {
  std::vector<FleetRow> rows;
  for (const uint64_t rank : {1, 0}) {
    FleetRow row = {.path = "a.json",
                    .host = "a",
                    .boot_id = "boot",
                    .rank = rank,
                    .process = {static_cast<pid_t>(100 + rank), 1},
                    .started = absl::FromUnixMillis(1'800'000'000'000),
                    .boot = absl::Hours(1)};
    row.memory.Add({absl::Milliseconds(250), Count((7 + rank) << 20)});
    row.memory.Add({absl::Milliseconds(500), std::nullopt});
    rows.push_back(std::move(row));
  }
  rows[0].boot = *rows[0].boot + absl::Milliseconds(30);
  const Fleet fleet = FleetOf(std::move(rows));
  const PageReading page(absl::StrJoin(FleetPageData(fleet).parts(), ""));
  CHECK(page.json["schema"] == "cowprof.fleet-page/1");
  CHECK(page.json["fleet"] == FleetJson(fleet));
  REQUIRE(page.json["curves"].size() == 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    const OrderedJson& curve = page.json["curves"][rank];
    CHECK(page.Column(curve["times_ms"]) == std::vector<std::optional<double>>{250, 500});
    CHECK(page.Column(curve["private_kib"]) == std::vector<std::optional<double>>{(7 + rank) << 10, std::nullopt});
    CHECK(curve["begins_ms"] == 1'800'000'000'000 + (rank == 1 ? 30 : 0));
  }
}

}  // namespace cowprof
