// Judges requests. See door.h.
#include "serve/door.h"

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

// Whether `authority` is this server by one of its own names. A browser leaves the port away where it is 80.
bool IsOurs(absl::string_view authority, const Door& door) {
  for (const std::string& name :
       {Bracketed(door.host), std::string("127.0.0.1"), std::string("localhost"), std::string("[::1]")}) {
    if (absl::EqualsIgnoreCase(authority, absl::StrCat(name, ":", door.port))) return true;
    if (door.port == 80 && absl::EqualsIgnoreCase(authority, name)) return true;
  }
  return false;
}

// Takes the same time wherever the first difference is.
bool SameToken(absl::string_view given, absl::string_view token) {
  if (given.size() != token.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < token.size(); ++i) difference |= given[i] ^ token[i];
  return difference == 0;
}

}  // namespace

Ruling RuleOn(const PageRequest& request, const Door& door) {
  if (request.hosts.size() != 1 || !IsOurs(request.hosts[0], door))
    return {403,
            "This server answers to 127.0.0.1, localhost and [::1] with its own port only. Through ssh -L, use the "
            "same port on both sides."};
  for (const std::string& origin : request.origins) {
    if (!absl::StartsWith(origin, "http://") || !IsOurs(origin.substr(7), door) || request.origins.size() > 1)
      return {403, "Another site's page asked for this."};
  }
  if (request.method != "GET" && request.method != "HEAD") return {405, "There is nothing here but to read."};
  if (!SameToken(request.token, door.token)) return {403, "Open the address that cowprof printed, with its token."};
  if (request.path == "/") return {.asked = Asked::kPage};
  if (request.path == "/data") return {.asked = Asked::kData};
  return {404, "There is nothing here but the page."};
}

std::string NewToken() {
  char bytes[16];
  // Never shorter than asked up to 256 bytes; a kernel without it (before 3.17) has no CO-RE probes either.
  if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) abort();
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

std::string AddressOf(const Door& door) {
  return absl::StrCat("http://", Bracketed(door.host), ":", door.port, "/?token=", door.token);
}

}  // namespace cowprof
