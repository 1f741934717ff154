// Who may see the page and what it consists of: judges each request by its method, path, Host, Origin and token. Pure.
//
// A page of another origin can make the reader's browser send requests here. The Host header reveals a page whose name
// was resolved to this machine (DNS rebinding), Origin reveals the rest, and none of them knows the token.
#ifndef COWPROF_SERVE_REQUEST_POLICY_H_
#define COWPROF_SERVE_REQUEST_POLICY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cowprof {

struct RequestPolicy {
  std::string host;  // numeric address that the server listens on
  uint16_t port = 0;
  std::string token;
};

struct PageRequest {
  std::string method, path;                 // the path without its query
  std::string token;                        // from the query; "": none
  std::vector<std::string> hosts, origins;  // values of these headers, one per occurrence
};

enum class Asked { kNothing, kPage, kData, kMetrics };

struct Ruling {
  unsigned status = 200;
  absl::string_view words;        // explains a `status` other than 200
  Asked asked = Asked::kNothing;  // what to serve if it is 200
};
Ruling RuleOn(const PageRequest& request, const RequestPolicy& policy);

// The same for the endpoint of metrics, which has no token, as scrapers have none to send. On loopback, Host must be
// one of this machine's names, so that no web page can read the metrics through a browser on it; on any other address,
// which its user has opened to other machines, the names that those know it by are unknown. No scraper sends an Origin.
Ruling RuleOnMetrics(const PageRequest& request, const RequestPolicy& policy);

bool IsLoopback(absl::string_view numeric_address);

// 128 bits from getrandom(2), as 32 hexadecimal digits.
std::string NewToken();

// "http://127.0.0.1:8080/?token=..."
std::string AddressOf(const RequestPolicy& policy);
std::string MetricsAddressOf(const RequestPolicy& policy);  // "http://127.0.0.1:9464/metrics"

}  // namespace cowprof

#endif  // COWPROF_SERVE_REQUEST_POLICY_H_
