// Spells the keys of an alert. See json_alerts.h.
#include "sink/json_alerts.h"

#include "model/alert.h"
#include "model/alert_words.h"
#include "model/growth.h"
#include "sink/json_fields.h"

namespace cowprof {

Json EncodeAlert(const Alert& alert) {
  Json json = {{"t", absl::ToInt64Microseconds(alert.t) / 1e6},
               {"type", "alert"},
               {"rule", NameOf(alert.rule)},
               {"over", alert.over},
               {"kind", NameOf(alert.kind)},
               {"name", alert.name},
               {"limit", alert.limit},
               {"used", alert.used}};
  json["eta_seconds"] = alert.eta ? Json(absl::ToInt64Milliseconds(*alert.eta) / 1e3) : Json(nullptr);
  json["index"] = alert.index >= 0 ? Json(alert.index) : Json(nullptr);
  json["cause"] = alert.cause.empty() ? Json(nullptr) : Json(alert.cause);
  json["text"] = alert.text;
  if (!alert.advice.empty()) json["advice"] = alert.advice;
  return json;
}

Alert DecodeAlert(const Json& json) {
  Alert alert = {.t = Rounded(NumberOf<double>(json, "t")),
                 .rule = TextOf(json, "rule") == NameOf(AlertRule::kEta) ? AlertRule::kEta : AlertRule::kRatio,
                 .over = BoolOf(json, "over"),
                 .kind = EnumNamed(TextOf(json, "kind"), kKindsOfLimit, LimitKind::kHost),
                 .name = TextOf(json, "name"),
                 .limit = NumberOf<uint64_t>(json, "limit"),
                 .used = NumberOf<uint64_t>(json, "used")};
  if (const double seconds = NumberOf<double>(json, "eta_seconds", -1); seconds >= 0) alert.eta = Rounded(seconds);
  alert.index = NumberOf<int>(json, "index", -1);
  alert.cause = TextOf(json, "cause");
  alert.text = TextOf(json, "text");
  alert.advice = TextOf(json, "advice");
  return alert;
}

}  // namespace cowprof
