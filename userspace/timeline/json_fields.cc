#include "timeline/json_fields.h"

#include "absl/strings/match.h"
#include "model/format.h"

namespace cowprof {
namespace {

void EscapeInvalid(Json* json) {
  if (json->is_string()) *json = ValidUtf8(json->get_ref<const std::string&>());
  if (!json->is_structured()) return;
  for (Json& value : *json) EscapeInvalid(&value);
}

}  // namespace

std::string Dump(const Json& json, int indent) {
  constexpr auto kReplace = Json::error_handler_t::replace;
  std::string text = json.dump(indent, ' ', false, kReplace);
  if (!absl::StrContains(text, "\ufffd")) return text;  // which stands for each byte that is not UTF-8
  Json valid = json;
  EscapeInvalid(&valid);
  return valid.dump(indent, ' ', false, kReplace);
}

}  // namespace cowprof
