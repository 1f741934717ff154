#include "timeline/json_limits.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "timeline/json_fields.h"
#include "timeline/plain_record.h"

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
  return {.kind = EnumNamed(TextOf(json, "kind"), LimitKind::kHost),
          .name = TextOf(json, "name"),
          .limit = CountOf(json, "limit"),
          .used = NumberOf<uint64_t>(json, "used")};
}

void EncodeLimits(const std::vector<LimitSample>& limits, std::vector<LimitSample>* written, std::string* out) {
  Json named = Json::array();
  std::string rows;
  for (const LimitSample& limit : limits) {
    const auto same = [&](const LimitSample& known) { return known.key() == limit.key(); };
    auto known = std::find_if(written->begin(), written->end(), same);
    const bool is_new = known == written->end();
    if (is_new) {
      Json& one = named.emplace_back(Json{{"limit", written->size()}});  // its number
      one.update(LimitNameJson(limit));
      known = written->insert(known, limit);
    }
    if (!is_new && *known == limit) continue;
    *known = limit;
    absl::StrAppend(&rows, rows.empty() ? "[" : ",[", known - written->begin(), ",", limit.used);
    AppendCell(limit.limit, &rows);
    absl::StrAppend(&rows, ",", limit.ratio() ? absl::StrFormat("%.4f", *limit.ratio()) : "null");
    if (limit.failures || limit.kills) {
      AppendCell(limit.failures, &rows);
      AppendCell(limit.kills, &rows);
      if (limit.ooms) AppendCell(limit.ooms, &rows);
    }
    absl::StrAppend(&rows, "]");
  }
  if (!named.empty()) absl::StrAppend(out, ",\"new_limits\":", Dump(named));
  if (!rows.empty()) absl::StrAppend(out, ",\"limits\":[", rows, "]");
}

void DecodeLimits(const SampleRecord& record, std::vector<LimitSample>* limits) {
  for (const Json& named : ListOf(record.json, "new_limits")) {
    if (!named.is_object()) continue;
    const LimitSample limit = DecodeLimit(named);
    limits->push_back({.kind = limit.kind, .name = limit.name});  // "limit" is its number here
  }
  ForEachRow(record, "limits", [&](const auto& row) {
    const Count i = CountAt(row, 0);
    if (!i || *i >= limits->size()) return;
    (*limits)[*i].used = CountAt(row, 1).value_or(0);
    (*limits)[*i].limit = CountAt(row, 2);
    (*limits)[*i].failures = CountAt(row, 4);
    (*limits)[*i].kills = CountAt(row, 5);
    (*limits)[*i].ooms = CountAt(row, 6);
  });
}

Json NamesOfLimitColumns() { return {"limit", "used", "limit_value", "ratio", "failures", "kills", "ooms"}; }

}  // namespace cowprof
