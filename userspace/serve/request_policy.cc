// Refuses by Host and Origin before it looks at the method, the token and the path.
#include "serve/request_policy.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

std::string Bracketed(absl::string_view host) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]") : std::string(host);
}

// Whether `authority` is one of this server's own names. Browsers omit port 80.
bool IsOurs(absl::string_view authority, const RequestPolicy& policy) {
  for (const std::string& name :
       {Bracketed(policy.host), std::string("127.0.0.1"), std::string("localhost"), std::string("[::1]")}) {
    if (absl::EqualsIgnoreCase(authority, absl::StrCat(name, ":", policy.port))) return true;
    if (policy.port == 80 && absl::EqualsIgnoreCase(authority, name)) return true;
  }
  return false;
}

// Takes the same time wherever the first difference is, so that timing reveals nothing.
bool SameToken(absl::string_view given, absl::string_view token) {
  if (given.size() != token.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < token.size(); ++i) difference |= given[i] ^ token[i];
  return difference == 0;
}

constexpr absl::string_view kNotOurs =
    "This server answers to 127.0.0.1, localhost and [::1] with its own port only. Through ssh -L, use the same port on "
    "both sides.";
constexpr absl::string_view kOtherSite = "This request came from another site's page.";
constexpr absl::string_view kOnlyGet = "Only GET and HEAD are allowed here.";

bool Reads(const PageRequest& request) { return request.method == "GET" || request.method == "HEAD"; }

}  // namespace

Ruling RuleOn(const PageRequest& request, const RequestPolicy& policy) {
  if (request.hosts.size() != 1 || !IsOurs(request.hosts[0], policy)) return {403, kNotOurs};
  for (const std::string& origin : request.origins) {
    if (!absl::StartsWith(origin, "http://") || !IsOurs(origin.substr(7), policy) || request.origins.size() > 1)
      return {403, kOtherSite};
  }
  if (!Reads(request)) return {405, kOnlyGet};
  if (!SameToken(request.token, policy.token)) return {403, "Open the address that cowprof printed, with its token."};
  if (request.path == "/") return {.asked = Asked::kPage};
  if (request.path == "/data") return {.asked = Asked::kData};
  return {404, "Not found: there is only the page itself."};
}

Ruling RuleOnMetrics(const PageRequest& request, const RequestPolicy& policy) {
  if (IsLoopback(policy.host) && (request.hosts.size() != 1 || !IsOurs(request.hosts[0], policy)))
    return {403, kNotOurs};
  if (!request.origins.empty()) return {403, kOtherSite};
  if (!Reads(request)) return {405, kOnlyGet};
  if (request.path == "/metrics") return {.asked = Asked::kMetrics};
  return {404, "Not found: the metrics are at /metrics."};
}

bool IsLoopback(absl::string_view numeric_address) {
  return numeric_address == "::1" || absl::StartsWith(numeric_address, "127.");
}

std::string NewToken() {
  char bytes[16];
  // Up to 256 bytes are never returned short. Kernels without getrandom(2), before 3.17, can't run cowprof anyway.
  if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) abort();
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

std::string AddressOf(const RequestPolicy& policy) {
  return absl::StrCat("http://", Bracketed(policy.host), ":", policy.port, "/?token=", policy.token);
}

std::string MetricsAddressOf(const RequestPolicy& policy) {
  return absl::StrCat("http://", Bracketed(policy.host), ":", policy.port, "/metrics");
}

}  // namespace cowprof
