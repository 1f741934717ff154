// What the server does with connections; test_serve.py asks it over real ones.
#include "serve/http.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

// Lets the process open no more descriptors while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(STDERR_FILENO);
    close(next);
    const rlimit none = {static_cast<rlim_t>(next), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

bool IsReadable(int fd) {
  pollfd one = {fd, POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

}  // namespace

TEST_CASE("http: a connection for which there is no descriptor waits without waking the caller") {
  Fd listening(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(bind(listening.fd(), any, size) == 0);
  REQUIRE(listen(listening.fd(), 4) == 0);
  REQUIRE(getsockname(listening.fd(), any, &size) == 0);
  bool asked = false;
  auto server = HttpServer::Start(
      std::move(listening),
      [&](const HttpRequest&) {
        asked = true;
        return HttpAnswer{.status = 404};
      },
      absl::Seconds(1));
  REQUIRE(server.ok());
  const Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(connect(client.fd(), any, size) == 0);
  const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  REQUIRE(write(client.fd(), request, sizeof(request) - 1) == sizeof(request) - 1);
  REQUIRE(IsReadable((*server)->wake_fd()));
  {
    const NoDescriptors none;
    (*server)->Run();
  }
  CHECK_FALSE(IsReadable((*server)->wake_fd()));
  CHECK((*server)->WaitAtMost() <= absl::Seconds(1));
  for (int ms = 0; ms < 10'000 && !asked; ++ms) {
    (*server)->Run();
    usleep(1000);
  }
  CHECK(asked);
}

}  // namespace cowprof
