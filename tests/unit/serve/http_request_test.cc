// Heads of requests. tests/system/test_serve.py sends some to a real server, request_fuzz.cc parses any.
#include "serve/http_request.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

const std::string kHead = "GET /data?a=b&token=12%204&token=5 HTTP/1.1\r\nHost: one\r\n";

}  // namespace

TEST_CASE("a complete head, and what follows it") {
  const std::string head = absl::StrCat(kHead, "hOST:\ttwo \r\nOrigin: null\r\nIf-None-Match: \"7\"\r\nX:\r\n\r\n");
  const RequestHead parsed = ParseRequestHead(absl::StrCat(head, "GET"));
  CHECK(parsed.refusal == 0);
  CHECK(parsed.bytes == head.size());
  CHECK(parsed.keeps);
  const PageRequest& page = parsed.request.page;
  CHECK(page.method == "GET");
  CHECK(page.path == "/data");
  CHECK(page.token == "12%204");
  CHECK(page.hosts == std::vector<std::string>{"one", "two"});
  CHECK(page.origins == std::vector<std::string>{"null"});
  CHECK(parsed.request.known_version == "\"7\"");
}

TEST_CASE("every proper beginning of a head is incomplete") {
  const std::string head = absl::StrCat(kHead, "\r\n");
  for (size_t size = 0; size < head.size(); ++size) {
    const RequestHead parsed = ParseRequestHead(absl::string_view(head).substr(0, size));
    CHECK((parsed.bytes == 0 && parsed.refusal == 0));
  }
  CHECK(ParseRequestHead(head).bytes == head.size());
}

TEST_CASE("a connection is not kept for another request after these") {
  for (const char* header : {"Connection: close", "connection: Keep-Alive, CLOSE", "Content-Length: 1",
                             "Content-Length: 0x", "Transfer-Encoding: chunked", "Transfer-Encoding: identity"}) {
    INFO(header);
    const RequestHead parsed = ParseRequestHead(absl::StrCat(kHead, header, "\r\n\r\n"));
    CHECK(parsed.refusal == 0);
    CHECK_FALSE(parsed.keeps);
  }
  CHECK(ParseRequestHead(absl::StrCat(kHead, "Content-Length: 0\r\n\r\n")).keeps);
  CHECK_FALSE(ParseRequestHead("GET / HTTP/1.0\r\n\r\n").keeps);
}

TEST_CASE("heads that can't be read are refused") {
  for (const char* head :
       {"GET\r\n", "GET /\r\n", " GET / HTTP/1.1\r\n", "GET  / HTTP/1.1\r\n", "GET / HTTP/1.1 \r\n",
        "G(T / HTTP/1.1\r\n", "GET /\t HTTP/1.1\r\n", "GET / HTTQ/1.1\r\n", "\r\nGET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost\r\n", "GET / HTTP/1.1\r\nHost : a\r\n", "GET / HTTP/1.1\r\nA: b\r\n c: d\r\n",
        "GET / HTTP/1.1\r\n: a\r\n", "GET / HTTP/1.1\r\nA: b\nHost: c\r\n", "GET / HTTP/1.1\r\nA: b\x7f\r\n",
        "GET / HTTP/1.1\r\nA: b\rc\r\n"}) {
    INFO(head);
    const RequestHead parsed = ParseRequestHead(absl::StrCat(head, "\r\n"));
    CHECK(parsed.refusal == 400);
    CHECK_FALSE(parsed.keeps);
  }
  CHECK(ParseRequestHead(absl::StrCat("GET / HTTP/1.1\r\nA: ", absl::string_view("\0", 1), "\r\n\r\n")).refusal == 400);
  CHECK(ParseRequestHead("GET / HTTP/2.0\r\n\r\n").refusal == 505);
}

TEST_CASE("a head has at most 16 KiB") {
  const auto sized = [](size_t bytes) {
    const std::string rest = " HTTP/1.1\r\n\r\n";
    return absl::StrCat("GET /", std::string(bytes - rest.size() - 5, 'a'), rest);
  };
  CHECK(ParseRequestHead(sized(kMaxRequestBytes)).bytes == kMaxRequestBytes);
  CHECK(ParseRequestHead(sized(kMaxRequestBytes + 1)).refusal == 431);
  CHECK(ParseRequestHead(std::string(kMaxRequestBytes, 'a')).refusal == 431);
  CHECK(ParseRequestHead(std::string(kMaxRequestBytes - 1, 'a')).refusal == 0);
}

}  // namespace cowprof
