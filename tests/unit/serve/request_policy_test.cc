// Who may see the page. tests/system/test_serve.py checks the same policy with real requests.
#include "serve/request_policy.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace cowprof {
namespace {

const RequestPolicy kPolicy = {.host = "127.0.0.1", .port = 8080, .token = "0123456789abcdef0123456789abcdef"};

PageRequest Good() { return {.method = "GET", .path = "/", .token = kPolicy.token, .hosts = {"127.0.0.1:8080"}}; }

unsigned StatusOf(const PageRequest& request) { return RuleOn(request, kPolicy).status; }

}  // namespace

TEST_CASE("a request with the token gets the page and its data") {
  PageRequest request = Good();
  CHECK(RuleOn(request, kPolicy).asked == Asked::kPage);
  request.path = "/data";
  CHECK(RuleOn(request, kPolicy).asked == Asked::kData);
  request.path = GENERATE("", "/data/", "//", "/Data", "/data?x", "/..");
  CHECK(StatusOf(request) == 404);
  CHECK(RuleOn(request, kPolicy).asked == Asked::kNothing);
}

TEST_CASE("every other token is refused") {
  PageRequest request = Good();
  request.token = GENERATE("", "0", "0123456789abcdef0123456789abcdeF", "0123456789abcdef0123456789abcde",
                           "0123456789abcdef0123456789abcdef0");
  CHECK(StatusOf(request) == 403);
}

TEST_CASE("Host must be a name of this machine, and occur once") {
  PageRequest request = Good();
  for (const char* host : {"localhost:8080", "LocalHost:8080", "[::1]:8080"}) {
    request.hosts = {host};
    CHECK(StatusOf(request) == 200);
  }
  for (const char* host :
       {"", "127.0.0.1", "127.0.0.1:80", "evil.example:8080", "127.0.0.1:8080.evil.example", "::1:8080"}) {
    INFO(host);
    request.hosts = {host};
    CHECK(StatusOf(request) == 403);
  }
  request.hosts = {};
  CHECK(StatusOf(request) == 403);
  request.hosts = {"127.0.0.1:8080", "127.0.0.1:8080"};
  CHECK(StatusOf(request) == 403);
}

TEST_CASE("browsers omit port 80") {
  RequestPolicy policy = kPolicy;
  policy.port = 80;
  PageRequest request = Good();
  request.hosts = {"127.0.0.1"};
  request.origins = {"http://127.0.0.1"};
  CHECK(RuleOn(request, policy).status == 200);
}

TEST_CASE("a page of another origin gets nothing") {
  PageRequest request = Good();
  request.origins = {"http://localhost:8080"};
  CHECK(StatusOf(request) == 200);
  for (const char* origin :
       {"null", "", "http://evil.example", "https://127.0.0.1:8080", "http://127.0.0.1", "http://127.0.0.1:8081"}) {
    INFO(origin);
    request.origins = {origin};
    CHECK(StatusOf(request) == 403);
  }
  request.origins = {"http://localhost:8080", "http://evil.example"};
  CHECK(StatusOf(request) == 403);
}

TEST_CASE("methods that could change something are refused") {
  PageRequest request = Good();
  request.method = "HEAD";
  CHECK(StatusOf(request) == 200);
  request.method = GENERATE("POST", "PUT", "DELETE", "get", "");
  CHECK(StatusOf(request) == 405);
}

TEST_CASE("tokens have 128 bits and differ") {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) tokens.insert(NewToken());
  CHECK(tokens.size() == 100);
  for (const std::string& token : tokens) {
    CHECK(token.size() == 32);
    CHECK(token.find_first_not_of("0123456789abcdef") == std::string::npos);
  }
  CHECK(AddressOf(kPolicy) == "http://127.0.0.1:8080/?token=0123456789abcdef0123456789abcdef");
}

TEST_CASE("metrics need no token; on loopback, Host must be a name of this machine") {
  const PageRequest scrape = {.method = "GET", .path = "/metrics", .token = "", .hosts = {"localhost:8080"}};
  CHECK(RuleOnMetrics(scrape, kPolicy).asked == Asked::kMetrics);
  PageRequest request = scrape;
  request.hosts = GENERATE(std::vector<std::string>{}, std::vector<std::string>{"evil.example:8080"},
                           std::vector<std::string>{"127.0.0.1:8080", "127.0.0.1:8080"});
  CHECK(RuleOnMetrics(request, kPolicy).status == 403);
  // An address that other machines reach has names that nobody here knows.
  for (const char* host : {"10.0.0.7", "0.0.0.0", "::", "fd00::1"}) {
    const RequestPolicy open = {.host = host, .port = 8080, .token = ""};
    CHECK(RuleOnMetrics(request, open).asked == Asked::kMetrics);
  }
}

TEST_CASE("metrics: no page of a site may read them, and there is nothing else") {
  PageRequest request = {.method = "GET", .path = "/metrics", .token = "", .hosts = {"127.0.0.1:8080"}};
  request.origins = {"http://127.0.0.1:8080"};
  CHECK(RuleOnMetrics(request, kPolicy).status == 403);
  CHECK(RuleOnMetrics(request, {.host = "0.0.0.0", .port = 8080, .token = ""}).status == 403);
  request.origins = {};
  request.method = GENERATE("POST", "PUT", "DELETE", "OPTIONS", "get");
  CHECK(RuleOnMetrics(request, kPolicy).status == 405);
  request.method = "GET";
  request.path = GENERATE("/", "/data", "/metrics/", "//metrics", "");
  CHECK(RuleOnMetrics(request, kPolicy).status == 404);
}

}  // namespace cowprof
