#include "timeline/json_start_methods.h"

#include "model/judge/start_methods.h"

namespace cowprof {
namespace {

Json SizeJson(const PickleSize& size) { return {{"low", size.low}, {"best", size.best}, {"high", OrNull(size.high)}}; }

Json SecondsJson(const SecondsRange& range) {
  return {{"low", range.low}, {"best", range.best}, {"high", range.high ? Json(*range.high) : Json(nullptr)}};
}

// The counts of a mix as they are called in a file.
struct MixField {
  const char* name;
  uint64_t PickleMix::*count;
};
constexpr MixField kMixFields[] = {{"int", &PickleMix::numbers},
                                   {"float", &PickleMix::floats},
                                   {"text", &PickleMix::texts},
                                   {"wide", &PickleMix::wide_texts},
                                   {"text_bytes", &PickleMix::text_bytes},
                                   {"again", &PickleMix::again},
                                   {"list", &PickleMix::lists},
                                   {"tuple", &PickleMix::tuples},
                                   {"dict", &PickleMix::dicts},
                                   {"set", &PickleMix::sets},
                                   {"instance", &PickleMix::instances},
                                   {"reduced", &PickleMix::reduced},
                                   {"array", &PickleMix::arrays},
                                   {"array_bytes", &PickleMix::array_bytes},
                                   {"tensor", &PickleMix::tensors}};

Json EncodeItems(const PickleItems& items) {
  Json kinds = Json::object();
  for (const MixField& field : kMixFields) {
    if (const uint64_t count = items.mix.*field.count; count > 0) kinds[field.name] = count;
  }
  return {{"path", items.path},       {"type", items.type},   {"count", items.count},     {"sampled", items.sampled},
          {"classes", items.classes}, {"bytes", items.bytes}, {"kinds", std::move(kinds)}};
}

std::optional<PickleItems> DecodeItems(const Json& look) {
  const auto found = look.find("items");
  if (found == look.end() || !found->is_object()) return std::nullopt;
  PickleItems items = {.path = TextOf(*found, "path"),
                       .type = TextOf(*found, "type"),
                       .count = NumberOf<uint64_t>(*found, "count"),
                       .sampled = NumberOf<uint64_t>(*found, "sampled"),
                       .classes = NumberOf<uint64_t>(*found, "classes"),
                       .bytes = NumberOf<uint64_t>(*found, "bytes")};
  if (const auto kinds = found->find("kinds"); kinds != found->end() && kinds->is_object()) {
    for (const MixField& field : kMixFields) items.mix.*field.count = NumberOf<uint64_t>(*kinds, field.name);
  }
  return items;
}

}  // namespace

Json StartCostsJson(const PickleLook& look, const StartCostFacts& facts) {
  Json rows = Json::array();
  for (const StartCost& cost : StartCostsOf(look, facts)) {
    rows.push_back({{"method", std::string(cost.method)},
                    {"works", cost.works ? Json(*cost.works) : Json(nullptr)},
                    {"bytes_each", cost.sent ? SizeJson(*cost.sent) : Json(nullptr)},
                    {"pickle_seconds_each", cost.time ? SecondsJson(cost.time->pickle) : Json(nullptr)},
                    {"unpickle_seconds_each", cost.time ? SecondsJson(cost.time->unpickle) : Json(nullptr)},
                    {"held_bytes_each", cost.held ? SizeJson(*cost.held) : Json(nullptr)}});
  }
  return rows;
}

Json StartMethodsJson(const PickleLook& look) {
  Json failures = Json::array(), unknowns = Json::array();
  for (const PickleFailure& failure : look.failures) {
    failures.push_back({{"path", failure.path},
                        {"type", failure.type},
                        {"reason", ReasonOf(failure)},
                        {"certainty", failure.confirmed && !failure.below_unknown ? "confirmed" : "possible"},
                        {"defined_at", TextOrNull(failure.defined_at)},
                        {"fix", FixOf(failure)},
                        {"count", failure.count}});
  }
  for (const PickleUnknown& unknown : look.unknowns) {
    unknowns.push_back(
        {{"path", unknown.path}, {"type", unknown.type}, {"runs", unknown.runs}, {"count", unknown.count}});
  }
  Json rows = Json::array();
  for (const char* method : {"spawn", "forkserver"}) {
    const std::string why = WhyUnknown(look);
    rows.push_back({{"method", method},
                    {"root", TextOrNull(look.root)},
                    {"verdict", NameOf(VerdictOf(look))},
                    {"why_unknown", TextOrNull(why)},
                    {"failures", failures},
                    {"unknowns", unknowns},
                    {"failures_left_out", look.failures_left_out},
                    {"unknowns_left_out", look.unknowns_left_out},
                    {"bytes_each", look.root.empty() ? Json(nullptr) : SizeJson(look.bytes)},
                    {"objects", look.objects},
                    {"unreadable", look.unreadable},
                    {"not_confirmed", look.refused},
                    {"capped", look.capped}});
  }
  return rows;
}

Json EncodeLook(const PickleLook& look) {
  Json failures = Json::array(), unknowns = Json::array();
  for (const PickleFailure& failure : look.failures) {
    failures.push_back({{"path", failure.path},
                        {"type", failure.type},
                        {"reason", NameOf(failure.reason)},
                        {"name", failure.name},
                        {"defined_at", failure.defined_at},
                        {"count", failure.count},
                        {"confirmed", failure.confirmed},
                        {"below_unknown", failure.below_unknown}});
  }
  for (const PickleUnknown& unknown : look.unknowns) {
    unknowns.push_back(
        {{"path", unknown.path}, {"type", unknown.type}, {"runs", unknown.runs}, {"count", unknown.count}});
  }
  return {{"root", look.root},
          {"expression", look.expression},
          {"python", look.python},
          {"of_loader", look.of_loader ? Json(*look.of_loader) : Json(nullptr)},
          {"failures", failures},
          {"unknowns", unknowns},
          {"failures_left_out", look.failures_left_out},
          {"unknowns_left_out", look.unknowns_left_out},
          {"not_confirmed", look.refused},
          {"objects", look.objects},
          {"unreadable", look.unreadable},
          {"object_array", {look.object_array, look.object_array_items}},
          {"capped", look.capped},
          {"walks_agree", look.walks_agree},
          {"bytes", {look.bytes.low, look.bytes.best, OrNull(look.bytes.high)}},
          {"held", look.held ? Json{look.held->low, look.held->best, OrNull(look.held->high)} : Json(nullptr)},
          {"items", look.items ? EncodeItems(*look.items) : Json(nullptr)},
          {"took", absl::ToInt64Microseconds(look.took) / 1e6}};
}

PickleLook DecodeLook(const Json& json) {
  PickleLook look = {.root = TextOf(json, "root"),
                     .expression = TextOf(json, "expression"),
                     .python = TextOf(json, "python"),
                     .failures_left_out = NumberOf<uint64_t>(json, "failures_left_out"),
                     .unknowns_left_out = NumberOf<uint64_t>(json, "unknowns_left_out"),
                     .refused = NumberOf<uint64_t>(json, "not_confirmed"),
                     .objects = NumberOf<uint64_t>(json, "objects"),
                     .unreadable = NumberOf<uint64_t>(json, "unreadable"),
                     .capped = BoolOf(json, "capped"),
                     .walks_agree = BoolOf(json, "walks_agree")};
  if (const auto of_loader = json.find("of_loader"); of_loader != json.end() && of_loader->is_boolean())
    look.of_loader = of_loader->get<bool>();
  for (const Json& failure : ListOf(json, "failures")) {
    look.failures.push_back({.path = TextOf(failure, "path"),
                             .type = TextOf(failure, "type"),
                             .reason = EnumNamed(TextOf(failure, "reason"), PickleReason::kNone),
                             .name = TextOf(failure, "name"),
                             .defined_at = TextOf(failure, "defined_at"),
                             .count = NumberOf<uint64_t>(failure, "count", 1),
                             .confirmed = BoolOf(failure, "confirmed"),
                             .below_unknown = BoolOf(failure, "below_unknown")});
  }
  for (const Json& unknown : ListOf(json, "unknowns")) {
    look.unknowns.push_back({TextOf(unknown, "path"), TextOf(unknown, "type"), TextOf(unknown, "runs"),
                             NumberOf<uint64_t>(unknown, "count", 1)});
  }
  if (const Json& array = ListOf(json, "object_array"); array.size() == 2 && array[0].is_string()) {
    look.object_array = array[0].get<std::string>();
    look.object_array_items = CountAt(array, 1).value_or(0);
  }
  const Json& bytes = ListOf(json, "bytes");
  look.bytes = {CountAt(bytes, 0).value_or(0), CountAt(bytes, 1).value_or(0), CountAt(bytes, 2)};
  if (const Json& held = ListOf(json, "held"); held.size() == 3)
    look.held = PickleSize{CountAt(held, 0).value_or(0), CountAt(held, 1).value_or(0), CountAt(held, 2)};
  look.items = DecodeItems(json);
  look.took = Rounded(NumberOf<double>(json, "took"));
  return look;
}

}  // namespace cowprof
