// What is found in a run: the same live and on replay, the same at every level of detail, and nothing is changed by
// asking.
#include "model/judge/findings.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "random_recording.h"
#include "sink/report/report.h"
#include "timeline/json_timeline.h"

namespace cowprof {
namespace {

// As the recorder runs it: judged at every tick, alerts raised on what was found. What is written is read back, as a
// file would be.
struct Live {
  Run run, replayed;
  Findings findings;
  AlertWatch watch{AlertSettings()};
  RecordEncoder encoder;
  RecordDecoder decoder;

  void Tick(const Sample& sample) {
    Append(sample, &run);
    findings = Judge(run);
    const std::vector<Alert> raised = watch.Judge(sample, run.model, findings.forecast);
    run.alerts.insert(run.alerts.end(), raised.begin(), raised.end());
    findings.alerts = run.alerts;
    const std::string records = encoder.Encode(sample, raised);
    encoder.Commit();
    for (const absl::string_view record : absl::StrSplit(records, ",\n")) {
      const auto result = decoder.Decode(record);
      REQUIRE(result.ok());
      if (*result == RecordDecoder::Result::kSample) Append(decoder.sample(), decoder.raised(), &replayed);
    }
  }
};

}  // namespace

TEST_CASE("what is said live at the last tick is what a replay says") {
  const unsigned seed = GENERATE(range(1u, 31u));
  INFO("seed " << seed);
  RandomRecording recording(seed);
  Live live;
  live.run.model.info = recording.Info();
  const auto info = DecodeHeader(EncodeHeader(live.run.model.info));
  REQUIRE(info.ok());
  live.replayed.model.info = *info;
  for (int i = 0; i < 50; ++i) live.Tick(recording.Next());
  const Findings replayed = Judge(live.replayed);
  CHECK(ReportText(live.run.model, live.findings, true) == ReportText(live.replayed.model, replayed, true));
  CHECK(ReportJson(live.run.model, live.findings).dump() == ReportJson(live.replayed.model, replayed).dump());
  CHECK(live.findings == replayed);
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
  CHECK(screen.verdict == report.verdict);
  CHECK(Judge(run) == report);
}

}  // namespace cowprof
