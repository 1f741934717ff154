// Executes /proc/self/exe as the serving process, so that it has none of the recorder's memory.
#include "serve/page_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "model/facts/run_model.h"
#include "posix/rights.h"
#include "posix/start_again.h"

namespace cowprof {
namespace {

constexpr int kBacklog = 64;
constexpr absl::Duration kFarewell = absl::Seconds(10);

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

SocketAddress Encode(const ServeAddress& address) {
  SocketAddress out = {};
  if (address.v6) {
    out.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(address.port)};
    inet_pton(AF_INET6, address.host.c_str(), &out.v6.sin6_addr);
  } else {
    out.v4 = {.sin_family = AF_INET, .sin_port = htons(address.port)};
    inet_pton(AF_INET, address.host.c_str(), &out.v4.sin_addr);
  }
  return out;
}

}  // namespace

absl::StatusOr<PageServer::Listening> PageServer::Listen(const std::optional<ServeAddress>& asked,
                                                         absl::string_view what) {
  if (!asked) return Listening();
  const ServeAddress& address = *asked;
  const auto failed = [&] {
    return absl::Status(absl::ErrnoToStatusCode(errno),
                        absl::StrCat("serve the ", what, " at ", address.host, ":", address.port, ": ", strerror(errno),
                                     errno == EADDRINUSE ? "; give another port, or none for a free one" : ""));
  };
  Fd listening(socket(address.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  SocketAddress bound = Encode(address);
  socklen_t size = address.v6 ? sizeof(bound.v6) : sizeof(bound.v4);
  // Makes the port of a server that has just ended available at once.
  if (!listening.ok() || setsockopt(listening.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(listening.fd(), &bound.any, size) != 0 || listen(listening.fd(), kBacklog) != 0 ||
      getsockname(listening.fd(), &bound.any, &size) != 0)
    return failed();
  const uint16_t port = ntohs(address.v6 ? bound.v6.sin6_port : bound.v4.sin_port);
  return Listening{{.host = address.host, .port = port, .token = NewToken()}, std::move(listening)};
}

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Bind(const std::optional<ServeAddress>& page,
                                                             const std::optional<ServeAddress>& metrics) {
  absl::StatusOr<Listening> of_page = Listen(page, "page");
  if (!of_page.ok()) return of_page.status();
  absl::StatusOr<Listening> of_metrics = Listen(metrics, "metrics");
  if (!of_metrics.ok()) return of_metrics.status();
  return std::unique_ptr<PageServer>(new PageServer(*std::move(of_page), *std::move(of_metrics)));
}

absl::Status PageServer::Start(Fd timeline, const std::string& path, const sigset_t& signals) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  Fd reading(ends[0]);
  lifeline_ = Fd(ends[1]);
  const UserIds user = LesserUser();
  const std::string zero(1, '\0');
  const std::string settings =
      absl::StrCat(absl::StrJoin({listening_.policy.host, absl::StrCat(listening_.policy.port), listening_.policy.token,
                                  absl::StrCat(user.uid), absl::StrCat(user.gid), path, metrics_.policy.host,
                                  absl::StrCat(metrics_.policy.port)},
                                 zero),
                   zero);
  // Never blocks: a pipe holds 64 KiB.
  if (write(lifeline_.fd(), settings.data(), settings.size()) != static_cast<ssize_t>(settings.size()))
    return absl::ErrnoToStatus(errno, "write to a pipe");
  const Fd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto socket_of = [&](const Listening& one) { return one.socket.ok() ? one.socket.fd() : nothing.fd(); };
  const char* libraries = getenv("LD_LIBRARY_PATH");
  const absl::StatusOr<pid_t> pid =
      cowprof::Start({.arguments = {"serve-page"},
                      .environment = {absl::StrCat("LD_LIBRARY_PATH=", libraries == nullptr ? "" : libraries)},
                      .descriptors = {socket_of(listening_), timeline.fd(), reading.fd(), socket_of(metrics_)},
                      .own_session = true,
                      .signals = signals});
  listening_.socket.Close();
  metrics_.socket.Close();  // otherwise clients of a dead server would wait instead of being refused
  if (!pid.ok())
    return absl::Status(pid.status().code(),
                        absl::StrCat("start the process that serves it: ", pid.status().message()));
  pid_ = *pid;
  return absl::OkStatus();
}

std::optional<std::string> PageServer::Death() {
  int status = 0;
  if (pid_ == 0 || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = 0;
  const Exit exit = ExitOf(status);
  return absl::StrCat(address().empty() ? "metrics are" : "the page is", " no longer served: its process ",
                      exit.signaled ? absl::StrCat("was killed by ", SignalName(exit.signal))
                                    : absl::StrCat("ended with status ", exit.code),
                      "; recording continues");
}

void PageServer::Finish() {
  lifeline_.Close();
  if (pid_ == 0) return;
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  pollfd end = {process.fd(), POLLIN, 0};
  poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(kFarewell)));
  kill(pid_, SIGKILL);  // has no effect on a zombie
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

PageServer::~PageServer() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace cowprof
