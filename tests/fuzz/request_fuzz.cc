// Who may see the page and the metrics: any method, path, token, Host and Origin. Only the token, with one Host and
// Origins that name this server, may get an answer. Then the head of any request.
#include <algorithm>

#include "absl/strings/match.h"
#include "fuzz.h"
#include "serve/http_request.h"
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
  PageRequest request = {.method = Text(input, "GET"),
                         .path = Text(input, input->ConsumeBool() ? "/" : "/metrics"),
                         .token = Text(input, policy.token)};
  for (int i = input->ConsumeIntegralInRange(0, 3); i > 0; --i)
    request.hosts.push_back(Text(input, absl::StrCat("localhost:", policy.port)));
  for (int i = input->ConsumeIntegralInRange(0, 2); i > 0; --i)
    request.origins.push_back(Text(input, absl::StrCat("http://127.0.0.1:", policy.port)));
  const Ruling scrape = RuleOnMetrics(request, policy);
  Require((scrape.status == 200) == (scrape.asked == Asked::kMetrics), "metrics and nothing else");
  Require(
      scrape.status != 200 || (request.origins.empty() &&
                               (!IsLoopback(policy.host) || (request.hosts.size() == 1 && NamesUs(request.hosts[0])))),
      "no site's page, and on loopback a Host that names this server");
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

std::string Line(FuzzedDataProvider* input) {
  static constexpr const char* kLikely[] = {"GET /data?token=0 HTTP/1.1", "HEAD / HTTP/1.0",   "Host: 127.0.0.1:80",
                                            "Content-Length: 0",          "Connection: close", "If-None-Match: \"1\""};
  return input->ConsumeBool() ? input->PickValueInArray(kLikely) : input->ConsumeRandomLengthString(80);
}

void FuzzHead(FuzzedDataProvider* input) {
  std::string text;
  for (int i = input->ConsumeIntegralInRange(0, 8); i > 0; --i) absl::StrAppend(&text, Line(input), "\r\n");
  if (input->ConsumeBool()) text += std::string(input->ConsumeIntegralInRange<size_t>(0, kMaxRequestBytes), 'a');
  if (input->ConsumeBool()) text += "\r\n";
  const RequestHead whole = ParseRequestHead(text);
  Require(whole.bytes <= std::min(text.size(), kMaxRequestBytes), "no more than was received");
  Require(whole.bytes != 0 || whole.refusal != 0 || text.size() < kMaxRequestBytes, "an end to what may come");
  Require(!whole.keeps || whole.refusal == 0, "nothing after what can't be read");
  if (whole.bytes == 0) return;
  const RequestHead alone = ParseRequestHead(text.substr(0, whole.bytes));
  Require(alone.bytes == whole.bytes && alone.refusal == whole.refusal && alone.keeps == whole.keeps &&
              alone.request.page.hosts == whole.request.page.hosts,
          "what follows a head does not change it");
  Require(ParseRequestHead(text.substr(0, whole.bytes - 1)).bytes == 0, "a head ends once");
  for (const std::string& host : whole.request.page.hosts)
    Require(host.find_first_of(std::string("\0\r\n", 3)) == host.npos, "a header is one line");
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  cowprof::FuzzRequestPolicy(&input);
  cowprof::FuzzHead(&input);
  return 0;
}
