// What is found in a run: the same live and on replay, the same at every level of detail, and nothing is changed by
// asking.
#include "model/judge/findings.h"

#include <catch2/catch.hpp>

#include "live_and_replay.h"
#include "random_recording.h"

namespace cowprof {

TEST_CASE("what is said live at the last tick is what a replay says") {
  const unsigned seed = GENERATE(range(1u, 31u));
  INFO("seed " << seed);
  RandomRecording recording(seed);
  LiveAndReplay live(recording.Info());
  for (int i = 0; i < 50; ++i) live.Tick(recording.Next());
  live.Check();
}

TEST_CASE("what a level of detail has is what the next one has") {
  RandomRecording recording(GENERATE(1u, 2u, 3u));
  Run run = {.model = {.info = recording.Info()}};
  for (int i = 0; i < 50; ++i) Append(recording.Next(), &run);
  const Findings tick = Judge(run, Detail::kTick), screen = Judge(run, Detail::kScreen), report = Judge(run);
  for (const Findings* more : {&screen, &report}) {
    CHECK(tick.all == more->all);
    CHECK(tick.living_workers == more->living_workers);
    CHECK(tick.forecast == more->forecast);
    CHECK(tick.nearest_limit == more->nearest_limit);
  }
  CHECK(screen.of_workers == report.of_workers);
  CHECK(screen.diagnoses == report.diagnoses);
  CHECK(screen.forecast_told == report.forecast_told);
  CHECK(screen.verdict == report.verdict);
  CHECK(Judge(run) == report);
}

}  // namespace cowprof
