#include "timeline/json_fields.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "model/format.h"

namespace cowprof {
namespace {

constexpr uint32_t kMostMembers = 1024;

// Whether an object of `text` has more; of invalid text anything.
bool HasTooManyMembers(absl::string_view text) {
  if (std::count(text.begin(), text.end(), ':') <= kMostMembers) return false;  // most records
  std::vector<uint32_t> members = {0};  // of the object around, and of each that is open
  for (size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '"':
        for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\';
        break;
      case '{':
        members.push_back(0);
        break;
      case '}':
        if (members.size() > 1) members.pop_back();
        break;
      case ':':
        if (++members.back() > kMostMembers) return true;
        break;
    }
  }
  return false;
}

void EscapeInvalid(Json* json) {
  if (json->is_string()) *json = ValidUtf8(json->get_ref<const std::string&>());
  if (!json->is_structured()) return;
  for (Json& value : *json) EscapeInvalid(&value);
}

}  // namespace

Json ParseUntrusted(absl::string_view text) {
  if (HasTooManyMembers(text)) return Json(Json::value_t::discarded);
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

std::string Dump(const Json& json, int indent) {
  constexpr auto kReplace = Json::error_handler_t::replace;
  std::string text = json.dump(indent, ' ', false, kReplace);
  if (!absl::StrContains(text, "\ufffd")) return text;  // which stands for each byte that is not UTF-8
  Json valid = json;
  EscapeInvalid(&valid);
  return valid.dump(indent, ' ', false, kReplace);
}

}  // namespace cowprof
