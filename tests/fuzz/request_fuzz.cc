// Who may see the page: any method, path, token, Host and Origin. Only the token, with one Host and Origins that name
// this server, may get an answer.
#include "absl/strings/match.h"
#include "fuzz.h"
#include "serve/request_policy.h"

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

void FuzzRequestPolicy(FuzzedDataProvider* input) {
  const RequestPolicy policy = {.host = input->ConsumeBool() ? "127.0.0.1" : "fe80::1",
                                .port = input->ConsumeBool() ? uint16_t{80} : uint16_t{8080},
                                .token = "0123456789abcdef0123456789abcdef"};
  PageRequest request = {.method = Text(input, "GET"), .path = Text(input, "/"), .token = Text(input, policy.token)};
  for (int i = input->ConsumeIntegralInRange(0, 3); i > 0; --i)
    request.hosts.push_back(Text(input, absl::StrCat("localhost:", policy.port)));
  for (int i = input->ConsumeIntegralInRange(0, 2); i > 0; --i)
    request.origins.push_back(Text(input, absl::StrCat("http://127.0.0.1:", policy.port)));
  const Ruling ruling = RuleOn(request, policy);
  Require((ruling.status == 200) == (ruling.asked != Asked::kNothing), "an answer exactly if allowed");
  if (ruling.status != 200) return;
  Require(request.token == policy.token, "the token");
  Require(request.method == "GET" || request.method == "HEAD", "GET only");
  Require(request.hosts.size() == 1 && NamesUs(request.hosts[0]), "one Host that names this server");
  for (const std::string& origin : request.origins)
    Require(absl::StartsWith(origin, "http://") && NamesUs(absl::string_view(origin).substr(7)),
            "Origins that name this server");
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  cowprof::FuzzRequestPolicy(&input);
  return 0;
}
