// Spells the keys of an alert record.
#include "timeline/json_alerts.h"

#include "timeline/json_fields.h"
#include "timeline/json_limits.h"

namespace cowprof {

Json EncodeCulprit(const std::optional<Culprit>& culprit) {
  if (!culprit) return nullptr;
  return {{"file", culprit->frame.file},     {"line", culprit->frame.line},       {"function", culprit->frame.function},
          {"via", TextOrNull(culprit->via)}, {"type", TextOrNull(culprit->type)}, {"share", culprit->share}};
}

std::optional<Culprit> DecodeCulprit(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  return Culprit{.frame = {TextOf(json, "file"), TextOf(json, "function"), NumberOf<int>(json, "line")},
                 .via = TextOf(json, "via"),
                 .type = TextOf(json, "type"),
                 .share = NumberOf<double>(json, "share")};
}

Json EncodeAlert(const Alert& alert) {
  Json json = {{"t", absl::ToInt64Microseconds(alert.t) / 1e6},
               {"type", "alert"},
               {"rule", NameOf(alert.rule)},
               {"over", alert.over},
               {"kind", alert.kind_name()},
               {"name", alert.name},
               {"limit", alert.limit},
               {"used", alert.used}};
  if (alert.rule == AlertRule::kHang) json["limit"] = json["used"] = nullptr;
  json["eta_seconds"] = alert.eta ? Json(absl::ToInt64Milliseconds(*alert.eta) / 1e3) : Json(nullptr);
  json["index"] = alert.index >= 0 ? Json(alert.index) : Json(nullptr);
  json["cause"] = TextOrNull(alert.cause);
  json["text"] = alert.text;
  if (!alert.advice.empty()) json["advice"] = alert.advice;
  if (alert.diagnosis.empty()) return json;
  json["diagnosis"] = alert.diagnosis;
  json["headline"] = alert.headline;
  json["culprit"] = EncodeCulprit(alert.culprit);
  return json;
}

Alert DecodeAlert(const Json& json) {
  const LimitSample limit = DecodeLimit(json);
  Alert alert = {.t = Rounded(NumberOf<double>(json, "t")),
                 .rule = EnumNamed(TextOf(json, "rule"), AlertRule::kRatio),
                 .over = BoolOf(json, "over"),
                 .kind = limit.kind,
                 .name = limit.name,
                 .limit = limit.limit.value_or(0),
                 .used = limit.used};
  if (const double seconds = NumberOf<double>(json, "eta_seconds", -1); seconds >= 0) alert.eta = Rounded(seconds);
  alert.index = NumberOf<int>(json, "index", -1);
  alert.cause = TextOf(json, "cause");
  alert.text = TextOf(json, "text");
  alert.advice = TextOf(json, "advice");
  alert.diagnosis = TextOf(json, "diagnosis");
  alert.headline = TextOf(json, "headline");
  if (const auto culprit = json.find("culprit"); culprit != json.end()) alert.culprit = DecodeCulprit(*culprit);
  return alert;
}

}  // namespace cowprof
