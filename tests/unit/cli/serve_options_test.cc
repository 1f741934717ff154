// Values of --serve: what is loopback and what is not.
#include "cli/serve_options.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "serve/request_policy.h"

namespace cowprof {

TEST_CASE("loopback addresses are accepted") {
  struct Case {
    const char *text, *host;
    bool v6;
    uint16_t port;
  };
  const Case row =
      GENERATE(Case{"", "127.0.0.1", false, 0}, Case{"8080", "127.0.0.1", false, 8080},
               Case{"127.0.0.1", "127.0.0.1", false, 0}, Case{"127.0.0.1:0", "127.0.0.1", false, 0},
               Case{"127.1.2.3:65535", "127.1.2.3", false, 65535}, Case{"localhost:80", "127.0.0.1", false, 80},
               Case{"[::1]", "::1", true, 0}, Case{"[::1]:8080", "::1", true, 8080},
               Case{"[0:0:0:0:0:0:0:1]:80", "::1", true, 80}, Case{"[::0001]", "::1", true, 0},
               Case{"[::ffff:127.0.0.1]:80", "127.0.0.1", false, 80}, Case{"[::FFFF:7f01:203]", "127.1.2.3", false, 0});
  INFO(row.text);
  ServeAddress address;
  CHECK(ParseServeAddress(row.text, &address) == "");
  CHECK(address.host == row.host);
  CHECK(address.v6 == row.v6);
  CHECK(address.port == row.port);
  CHECK(ParseServeAddress(row.text, &address, /*anywhere=*/true) == "");
  CHECK(IsLoopback(address.host));  // then metrics ask for a Host
}

TEST_CASE("other addresses, and what is not an address, are refused in one line") {
  const std::string text =
      GENERATE("0.0.0.0", "0.0.0.0:80", "[::]", "[::]:80", "10.0.0.1:80", "128.0.0.1", "126.255.255.255",
               "[::ffff:10.0.0.1]:80", "::1", "example.com", "127.0.0.1:", "127.0.0.1:65536", "65536", ":80", "[::1",
               "[::1]80", "[]:80", "127.0.0.1:80:80", "127.0.0.1:-1", "127.1", "\x1b[2J", " ");
  INFO(text);
  ServeAddress address;
  const std::string error = ParseServeAddress(text, &address);
  CHECK(error != "");
  CHECK_FALSE(absl::StrContains(error, "\n"));
  CHECK_FALSE(absl::StrContains(error, "\x1b"));
}

TEST_CASE("the refusal says how to connect from another machine") {
  ServeAddress address;
  CHECK(absl::StrContains(ParseServeAddress("0.0.0.0:8080", &address), "ssh -L 8080:127.0.0.1:8080 HOST"));
}

TEST_CASE("metrics may be served on any numeric address") {
  ServeAddress address;
  for (const char* text :
       {"9464", "0.0.0.0:9464", "[::]:9464", "10.0.0.1:80", "[fd00::1]:80", "[::ffff:10.0.0.1]:80", "localhost:9464"}) {
    INFO(text);
    CHECK(ParseServeAddress(text, &address, /*anywhere=*/true) == "");
  }
  for (const char* text : {"example.com:80", "::1", "127.1:80", "1.2.3:80", "999.0.0.1:80", "0.0.0.0:65536", " "}) {
    INFO(text);
    CHECK(ParseServeAddress(text, &address, /*anywhere=*/true) != "");
  }
}

}  // namespace cowprof
