#include "timeline/json_limits.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "timeline/json_fields.h"

namespace cowprof {

Json LimitNameJson(const LimitSample& limit) {
  return {{"kind", NameOf(limit.kind)}, {"name", limit.name}, {"unit", limit.unit()}};
}

Json LimitUseJson(const LimitSample& limit) {
  Json json = LimitNameJson(limit);
  json["limit"] = limit.limit ? Json(*limit.limit) : Json(nullptr);
  json["used"] = limit.used;
  return json;
}

Json RatioJson(const LimitSample& limit) {
  const std::optional<double> ratio = limit.ratio();
  return ratio ? Json(*ratio) : Json(nullptr);
}

Json EncodeLimit(const LimitSample& limit) {
  Json json = LimitUseJson(limit);
  json["ratio"] = RatioJson(limit);
  return json;
}

Json EncodeMetLimit(const LimitSample& limit) {
  Json json = {{"kind", NameOf(limit.kind)}, {"name", limit.name}, {"used", limit.used}};
  if (limit.limit) json["limit"] = *limit.limit;
  return json;
}

LimitSample DecodeLimit(const Json& json) {
  LimitSample limit = {.kind = EnumNamed(TextOf(json, "kind"), LimitKind::kHost),
                       .name = TextOf(json, "name"),
                       .used = NumberOf<uint64_t>(json, "used")};
  if (const auto value = json.find("limit"); value != json.end()) limit.limit = NumberIn<uint64_t>(*value);
  return limit;
}

}  // namespace cowprof
