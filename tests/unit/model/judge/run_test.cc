// A run keeps a bounded number of alerts, and all that still stand.
#include "model/judge/run.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace cowprof {
namespace {

Alert RatioAlert(int seconds, const std::string& limit, bool over) {
  return {.t = absl::Seconds(seconds), .over = over, .kind = LimitKind::kShm, .name = limit};
}

}  // namespace

TEST_CASE("a run keeps its latest alerts, those that stand, and the first") {
  Run run;
  AddAlerts({RatioAlert(1, "ended", false), RatioAlert(2, "ended", true), RatioAlert(3, "standing", false)}, &run);
  for (int t = 4; t < 4 + static_cast<int>(kMostAlerts); ++t)
    AddAlerts({RatioAlert(t, "flapping", /*over=*/t % 2 == 1)}, &run);
  REQUIRE(run.alerts.size() == kMostAlerts);
  CHECK(run.alerts.front() == RatioAlert(3, "standing", false));
  CHECK(run.alerts[1].t == absl::Seconds(5));
  CHECK(run.alerts.back().t == absl::Seconds(3 + kMostAlerts));
  CHECK(std::is_sorted(run.alerts.begin(), run.alerts.end(), [](const auto& a, const auto& b) { return a.t < b.t; }));
  REQUIRE(run.first_alert);
  CHECK(*run.first_alert == RatioAlert(1, "ended", false));
  const std::vector<const Alert*> standing = StandingOf(run.alerts);
  REQUIRE(standing.size() == 1);
  CHECK(standing[0]->name == "standing");
}

TEST_CASE("the first alert is the first that was raised, not the end of one") {
  Run run;
  AddAlerts({RatioAlert(1, "a", true)}, &run);
  CHECK_FALSE(run.first_alert);
  AddAlerts({RatioAlert(2, "b", false), RatioAlert(3, "c", false)}, &run);
  REQUIRE(run.first_alert);
  CHECK(run.first_alert->name == "b");
  CHECK(run.alerts.size() == 3);
}

}  // namespace cowprof
