// Numeric addresses and localhost; names are not looked up.
#include "cli/serve_options.h"

#include <arpa/inet.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "model/format.h"

namespace cowprof {
namespace {

bool IsNumber(absl::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos;
}

// Splits "HOST:PORT", "[HOST]:PORT", "HOST" or "PORT". False: none of these.
bool Split(absl::string_view text, absl::string_view* host, absl::string_view* port) {
  if (IsNumber(text)) {
    *port = text;
    return true;
  }
  const bool bracketed = absl::StartsWith(text, "[");
  const size_t end = bracketed ? text.find(']') : text.find(':');
  if (bracketed && end == absl::string_view::npos) return false;
  *host = text.substr(bracketed, end - bracketed);
  const absl::string_view rest = end == absl::string_view::npos ? "" : text.substr(end + bracketed);
  if (rest.empty()) return !host->empty();
  *port = rest.substr(1);
  return !host->empty() && rest[0] == ':' && IsNumber(*port);
}

}  // namespace

std::string ParseServeAddress(absl::string_view text, ServeAddress* address, bool anywhere) {
  *address = {};
  if (text.empty()) return "";
  absl::string_view host = address->host, port;
  uint32_t number = 0;
  if (!Split(text, &host, &port) || (!port.empty() && (!absl::SimpleAtoi(port, &number) || number > 65535))) {
    return absl::StrCat("'", Printable(text),
                        "' is not an address; give a port, or an address such as 127.0.0.1:8080 or [::1]:8080");
  }
  address->host = host == "localhost" ? "127.0.0.1" : std::string(host);
  address->port = static_cast<uint16_t>(number);
  in_addr v4 = {};
  in6_addr v6 = {};
  address->v6 = inet_pton(AF_INET6, address->host.c_str(), &v6) == 1;
  bool is_v4 = !address->v6 && inet_pton(AF_INET, address->host.c_str(), &v4) == 1;
  if (address->v6 && IN6_IS_ADDR_V4MAPPED(&v6)) {  // of IPv4 alone
    memcpy(&v4, &v6.s6_addr[12], sizeof(v4));
    address->v6 = false;
    is_v4 = true;
  }
  // In its one spelling: IsLoopback() and the policy compare text.
  char spelled[INET6_ADDRSTRLEN];
  if (address->v6) address->host = inet_ntop(AF_INET6, &v6, spelled, sizeof(spelled));
  if (is_v4) address->host = inet_ntop(AF_INET, &v4, spelled, sizeof(spelled));
  if (address->v6 ? IN6_IS_ADDR_LOOPBACK(&v6) : is_v4 && ntohl(v4.s_addr) >> 24 == 127) return "";
  if (anywhere) {
    if (address->v6 || is_v4) return "";
    return absl::StrCat("'", Printable(text),
                        "' is not a numeric address; give one such as 127.0.0.1:9464, or "
                        "0.0.0.0:9464 for every machine that reaches this one");
  }
  const std::string wanted = number == 0 ? "8080" : absl::StrCat(number);
  return absl::StrCat("'", Printable(text),
                      "' can be reached from other machines, but cowprof serves this one only; give 127.0.0.1:", wanted,
                      " and connect from your own machine through: ssh -L ", wanted, ":127.0.0.1:", wanted, " HOST");
}

}  // namespace cowprof
