// A run as the recorder sees it, and as it is read back from what the recorder writes.
#ifndef COWPROF_TESTS_UNIT_LIVE_AND_REPLAY_H_
#define COWPROF_TESTS_UNIT_LIVE_AND_REPLAY_H_

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "model/judge/alert.h"
#include "model/judge/alert_format.h"
#include "model/judge/findings.h"
#include "sink/report/report.h"
#include "timeline/json_fields.h"
#include "timeline/json_timeline.h"

namespace cowprof {

// Judges at every tick and raises alerts on what was found.
struct LiveAndReplay {
  Run run, replayed;
  Findings findings;
  AlertWatch watch{AlertSettings()};
  RecordEncoder encoder;
  RecordDecoder decoder;

  explicit LiveAndReplay(const RunInfo& info) {
    run.model.info = info;
    const auto read = DecodeHeader(EncodeHeader(info));
    REQUIRE(read.ok());
    replayed.model.info = *read;
  }
  void Tick(const Sample& sample) {
    Append(sample, &run);
    findings = Judge(run);
    std::vector<Alert> raised = watch.Judge(sample, run.model, findings.forecast);
    ExplainAlerts(findings, run.model, &raised);
    AddAlerts(raised, &run);
    findings.alerts = run.alerts;
    const std::string records = encoder.Encode(sample, raised);
    encoder.Commit();
    for (const absl::string_view record : absl::StrSplit(records, ",\n")) {
      const auto result = decoder.Decode(record);
      REQUIRE(result.ok());
      if (*result == RecordDecoder::Result::kSample) Append(decoder.sample(), decoder.raised(), &replayed);
    }
  }
  // What was said at the last tick is what a replay says.
  void Check() const {
    const Findings again = Judge(replayed);
    CHECK(ReportText(run.model, findings, true) == ReportText(replayed.model, again, true));
    CHECK(Dump(ReportJson(run.model, findings, true)) == Dump(ReportJson(replayed.model, again, true)));
    CHECK(findings == again);
  }
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_LIVE_AND_REPLAY_H_
