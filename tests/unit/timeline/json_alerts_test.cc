// Alerts in a timeline: they come back as they were, in order, also when a write failed in between, and from any JSON.
#include "sink/json_alerts.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "json_schema.h"
#include "model/growth.h"
#include "sink/json_timeline.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

Alert Planted(int i) {
  Alert alert = {
      .t = absl::Milliseconds(1500 + i), .rule = i % 2 ? AlertRule::kEta : AlertRule::kRatio, .over = i % 3 == 0};
  alert.kind = static_cast<LimitKind>(i % 7);
  alert.name = "/job \"7\"\n";
  alert.limit = 1ull << (20 + i);
  alert.used = 12345u * i;
  if (i % 2) alert.eta = absl::Milliseconds(1250 * i);
  alert.index = i % 4 - 1;
  alert.cause = i % 2 ? "new-memory" : "";
  alert.text = "met in 12 s";
  alert.advice = alert.over ? "" : "checkpoint";
  return alert;
}

Sample DecodeAll(const std::string& records, RecordDecoder* decoder) {
  for (absl::string_view record : absl::StrSplit(records, ",\n")) {
    const auto result = decoder->Decode(record);
    REQUIRE(result.ok());
    if (*result == RecordDecoder::Result::kSample) return decoder->sample();
  }
  FAIL("no sample in " << records);
  return {};
}

}  // namespace

TEST_CASE("an alert comes back as it was, and is as the schema has it") {
  const JsonSchema schema("timeline");
  for (int i = 0; i < 14; ++i) {
    const Json json = EncodeAlert(Planted(i));
    INFO(json.dump());
    CHECK(DecodeAlert(json) == Planted(i));
    nlohmann::json document = nlohmann::json::parse(EncodeHeader({}) + "]}", nullptr, false);
    REQUIRE(document.is_object());
    document["records"].push_back(nlohmann::json::parse(json.dump()));
    document["header"] = nlohmann::json::object();  // is not looked at here
    for (const std::string& error : schema.Errors(document)) {
      INFO(error);
      CHECK(error.find("records") == std::string::npos);
    }
  }
}

TEST_CASE("alerts of a sample that could not be written come with the next one") {
  RecordEncoder encoder;
  RecordDecoder decoder;
  static_cast<void>(encoder.Encode({.t = absl::Seconds(1), .alerts = {Planted(1)}}));
  const std::string records = encoder.Encode({.t = absl::Seconds(2), .alerts = {Planted(2)}});
  encoder.Commit();
  CHECK(DecodeAll(records, &decoder).alerts == std::vector<Alert>{Planted(1), Planted(2)});
  CHECK(DecodeAll(encoder.Encode({.t = absl::Seconds(3)}), &decoder).alerts.empty());
}

TEST_CASE("any JSON is an alert with what it has") {
  CHECK(DecodeAlert(Json::object()) == Alert{});
  const Json odd = {{"t", "x"},      {"rule", 7},     {"over", "yes"},       {"kind", "disk"}, {"limit", -1},
                    {"used", 1e300}, {"index", 1e99}, {"eta_seconds", -5.0}, {"text", {1, 2}}, {"name", nullptr}};
  CHECK(DecodeAlert(odd) == Alert{});
}

}  // namespace cowprof
