// Who is let in to the page: any method, path, token, Host and Origin. Nothing but the token, one Host of ours and
// Origins of ours may open the door.
#include "absl/strings/match.h"
#include "fuzz.h"
#include "serve/door.h"

namespace cowprof {
namespace {

std::string Text(FuzzedDataProvider* input, const std::string& likely) {
  return input->ConsumeBool() ? likely : input->ConsumeRandomLengthString(80);
}

bool NamesUs(absl::string_view authority) {
  for (const char* name : {"127.0.0.1:", "localhost:", "[::1]:", "[fe80::1]:"}) {
    if (absl::StartsWithIgnoreCase(authority, name)) return true;
  }
  for (const char* name : {"127.0.0.1", "localhost", "[::1]", "[fe80::1]"}) {
    if (absl::EqualsIgnoreCase(authority, name)) return true;
  }
  return false;
}

void FuzzDoor(FuzzedDataProvider* input) {
  const Door door = {.host = input->ConsumeBool() ? "127.0.0.1" : "fe80::1",
                     .port = input->ConsumeBool() ? uint16_t{80} : uint16_t{8080},
                     .token = "0123456789abcdef0123456789abcdef"};
  PageRequest request = {.method = Text(input, "GET"), .path = Text(input, "/"), .token = Text(input, door.token)};
  for (int i = input->ConsumeIntegralInRange(0, 3); i > 0; --i)
    request.hosts.push_back(Text(input, absl::StrCat("localhost:", door.port)));
  for (int i = input->ConsumeIntegralInRange(0, 2); i > 0; --i)
    request.origins.push_back(Text(input, absl::StrCat("http://127.0.0.1:", door.port)));
  const Ruling ruling = RuleOn(request, door);
  Require((ruling.status == 200) == (ruling.asked != Asked::kNothing), "an answer where the door is open");
  if (ruling.status != 200) return;
  Require(request.token == door.token, "the token");
  Require(request.method == "GET" || request.method == "HEAD", "GET only");
  Require(request.hosts.size() == 1 && NamesUs(request.hosts[0]), "one Host of ours");
  for (const std::string& origin : request.origins)
    Require(absl::StartsWith(origin, "http://") && NamesUs(absl::string_view(origin).substr(7)), "Origins of ours");
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  cowprof::FuzzDoor(&input);
  return 0;
}
