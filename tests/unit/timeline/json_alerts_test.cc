// Alerts in a timeline: read back unchanged and in order, even if a write failed in between, and from any JSON.
#include "timeline/json_alerts.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "json_schema.h"
#include "model/facts/run_model.h"
#include "timeline/json_timeline.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

Alert Planted(int i) {
  Alert alert = {
      .t = absl::Milliseconds(1500 + i), .rule = i % 2 ? AlertRule::kEta : AlertRule::kRatio, .over = i % 3 == 0};
  alert.kind = kAll<LimitKind>[i % kCountOf<LimitKind>];
  alert.name = "/job \"7\"\n";
  alert.limit = 1ull << (20 + i);
  alert.used = 12345u * i;
  if (i % 2) alert.eta = absl::Milliseconds(1250 * i);
  alert.index = i % 4 - 1;
  alert.cause = i % 2 ? "new-memory" : "";
  alert.text = "met in 12 s";
  alert.advice = alert.over ? "" : "checkpoint";
  if (i % 5 == 1) {
    alert.diagnosis = "cow-refcount";
    alert.headline = "Reading ...";
    if (i > 5) alert.culprit = {{"/a.py", "f", 12}, "pandas", "str", 0.76};
  }
  return alert;
}

std::vector<Alert> DecodeRaised(const std::string& records, RecordDecoder* decoder) {
  for (absl::string_view record : absl::StrSplit(records, ",\n")) {
    const auto result = decoder->Decode(record);
    REQUIRE(result.ok());
    if (*result == RecordDecoder::Result::kSample) return decoder->raised();
  }
  FAIL("no sample in " << records);
  return {};
}

}  // namespace

// The alert of a process that hangs: it has no limit.
Alert Hung() {
  return {.t = absl::Milliseconds(2500),
          .rule = AlertRule::kHang,
          .name = "worker 4711",
          .index = 2,
          .cause = "rlock",
          .text = "worker 4711 can never go on: ...",
          .advice = "import it before the fork"};
}

TEST_CASE("an alert is read back unchanged and matches the schema") {
  const JsonSchema schema("timeline");
  for (int i = 0; i < 15; ++i) {
    const Alert planted = i < 14 ? Planted(i) : Hung();
    const Json json = EncodeAlert(planted);
    INFO(json.dump());
    CHECK(DecodeAlert(json) == planted);
    CHECK((json["kind"] == "hang") == (i == 14));
    CHECK(json["limit"].is_null() == (i == 14));
    nlohmann::json document = nlohmann::json::parse(EncodeHeader({}) + "]}", nullptr, false);
    REQUIRE(document.is_object());
    document["records"].push_back(nlohmann::json::parse(json.dump()));
    document["header"] = nlohmann::json::object();  // not checked here
    for (const std::string& error : schema.Errors(document)) {
      INFO(error);
      CHECK(error.find("records") == std::string::npos);
    }
  }
}

TEST_CASE("alerts of a sample that could not be written are written with the next one") {
  RecordEncoder encoder;
  RecordDecoder decoder;
  static_cast<void>(encoder.Encode({.t = absl::Seconds(1)}, {Planted(1)}));
  const std::string records = encoder.Encode({.t = absl::Seconds(2)}, {Planted(2)});
  encoder.Commit();
  CHECK(DecodeRaised(records, &decoder) == std::vector<Alert>{Planted(1), Planted(2)});
  CHECK(DecodeRaised(encoder.Encode({.t = absl::Seconds(3)}), &decoder).empty());
}

TEST_CASE("any JSON decodes to an alert with the fields that are valid") {
  CHECK(DecodeAlert(Json::object()) == Alert{});
  const Json odd = {{"t", "x"},      {"rule", 7},     {"over", "yes"},       {"kind", "disk"}, {"limit", -1},
                    {"used", 1e300}, {"index", 1e99}, {"eta_seconds", -5.0}, {"text", {1, 2}}, {"name", nullptr}};
  CHECK(DecodeAlert(odd) == Alert{});
}

}  // namespace cowprof
