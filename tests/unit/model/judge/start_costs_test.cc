#include "model/judge/start_costs.h"

#include <catch2/catch.hpp>
#include <string>

#include "sink/report/start_methods_format.h"
#include "timeline/json_start_methods.h"

namespace cowprof {
namespace {

PickleLook Whole() {
  return {.root = "data", .expression = "data", .objects = 3, .walks_agree = true, .bytes = {90, 100, 110}};
}

TEST_CASE("start costs: fork sends nothing and copies at most what there is", "[start_costs]") {
  const std::vector<StartCost> rows = StartCostsOf(Whole(), {.anonymous_bytes = 5000});
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].method == "fork");
  CHECK(rows[0].works == true);
  CHECK(rows[0].held->high == 5000);
  CHECK_FALSE(rows[0].time);
  CHECK_FALSE(StartCostsOf(Whole(), {})[0].held);
}

TEST_CASE("start costs: what a fork leaves behind stands below the table", "[start_costs]") {
  const auto says = [](size_t threads, const char* words) {
    return StartMethodsText(Whole(), {.threads = threads}).find(words) != std::string::npos;
  };
  CHECK(says(21, "\n  By fork 20 other threads stay behind: \"cowprof doctor PID\" says what may hang.\n"));
  CHECK(says(2, "\n  By fork 1 other thread stays behind: "));
  CHECK_FALSE(says(1, "behind"));
  CHECK_FALSE(says(0, "behind"));
}

TEST_CASE("start costs: times are given where they were measured", "[start_costs]") {
  StartCostFacts facts = {.mix = {.numbers = 10}, .why_no_time = "it was replaced"};
  CHECK_FALSE(StartCostsOf(Whole(), facts)[2].time);
  CHECK(StartCostsJson(Whole(), facts)[2]["pickle_seconds_each"].is_null());
  CHECK(StartMethodsText(Whole(), facts).find("not measured: it was replaced.") != std::string::npos);
  facts = {.mix = {.numbers = 10}, .sample = {.numbers = 10}, .runs = {{0.5, 0.25}}, .why_no_time = ""};
  CHECK(StartCostsOf(Whole(), facts)[1].time->pickle.best == 0.5);
  CHECK(StartCostsJson(Whole(), facts)[1]["unpickle_seconds_each"]["best"] == 0.25);
}

TEST_CASE("start costs: what can't be judged is unknown", "[start_costs]") {
  PickleLook look = Whole();
  look.walks_agree = false;
  CHECK_FALSE(StartCostsOf(look, {})[1].works);
  look.failures = {{.path = "data.lock", .type = "_thread.lock", .reason = PickleReason::kLock, .confirmed = true}};
  CHECK(StartCostsOf(look, {})[1].works == false);
  look = {};
  CHECK_FALSE(StartCostsOf(look, {})[2].sent);
}

}  // namespace
}  // namespace cowprof
