// What the server does with connections; test_serve.py asks it over real ones.
#include "serve/http.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "posix/clock.h"

namespace cowprof {
namespace {

// A listening socket with an address of the kernel's choice, and clients of it.
class Listener {
 public:
  Listener() : listening_(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    REQUIRE(bind(listening_.fd(), address, sizeof(sa_family_t)) == 0);
    REQUIRE(getsockname(listening_.fd(), address, &size_) == 0);
    REQUIRE(listen(listening_.fd(), 4) == 0);
  }
  Fd Take() { return std::move(listening_); }
  // A connection that has asked.
  Fd Ask() const {
    Fd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(connect(client.fd(), reinterpret_cast<const sockaddr*>(&address_), size_) == 0);
    const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    REQUIRE(write(client.fd(), request.data(), request.size()) == static_cast<ssize_t>(request.size()));
    return client;
  }

 private:
  Fd listening_;
  sockaddr_un address_ = {.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t size_ = sizeof(address_);
};

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

TEST_CASE("http: out of descriptors, a connection waits and the server does not spin") {
  Listener listener;
  bool asked = false;
  auto server = HttpServer::Start(
      listener.Take(),
      [&](const HttpRequest&) {
        asked = true;
        return HttpAnswer{.status = 404};
      },
      absl::Seconds(1));
  REQUIRE(server.ok());
  const Fd client = listener.Ask();
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

TEST_CASE("http: a server knows whether an answer is half sent, and whether it was begun before a time") {
  Listener listener;
  const auto body = std::make_shared<const std::string>(8 << 20, 'x');
  auto server = HttpServer::Start(
      listener.Take(), [&](const HttpRequest&) { return HttpAnswer{.body = body}; }, absl::Seconds(60));
  REQUIRE(server.ok());
  CHECK_FALSE((*server)->answering());

  const absl::Duration before = BootTime();
  const Fd client = listener.Ask();
  for (int i = 0; i < 2; ++i) (*server)->Run();  // it accepts, then answers
  CHECK((*server)->answering());
  CHECK((*server)->answering(BootTime() + absl::Nanoseconds(1)));
  CHECK_FALSE((*server)->answering(before));

  size_t received = 0;
  std::string piece(1 << 20, '\0');
  while (received < body->size()) {
    const ssize_t bytes = read(client.fd(), piece.data(), piece.size());
    REQUIRE(bytes > 0);
    received += bytes;
    (*server)->Run();
  }
  CHECK_FALSE((*server)->answering());
}

}  // namespace cowprof
