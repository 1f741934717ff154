// An epoll instance of its own, whose descriptor the caller's loop waits for. Per connection: read a head, send the
// answer, and again; a refused one is read to its end first, as unread bytes would reset it and lose the answer.
#include "serve/http.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr size_t kMaxStrangers = 32;  // connections that have not sent a request with the token yet
// Time that a connection may take to send its request, until its next request, and to close.
constexpr absl::Duration kAskTime = absl::Seconds(5), kIdleTime = absl::Seconds(30), kCloseTime = absl::Seconds(2);
constexpr absl::Duration kPause = absl::Milliseconds(100);  // after there was no descriptor for a connection
constexpr uint64_t kListening = 0;                          // in epoll's data; connections have higher numbers

absl::string_view PhraseOf(unsigned status) {
  switch (status) {
    case 200:
      return "OK";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
  }
  return "";
}

struct Connection {
  enum class State { kReading, kAnswering, kClosing };

  Fd socket;
  absl::Duration deadline;
  State state = State::kReading;
  bool stranger = true;
  bool keeps = false;    // whether the client may send another request
  std::string received;  // not answered yet
  std::string head;      // of the answer
  std::shared_ptr<const std::string> body;
  size_t sent = 0;  // of head and body
};

class EpollServer : public HttpServer {
 public:
  EpollServer(Fd listening, Handler handler, absl::Duration answer_time)
      : listening_(std::move(listening)), handler_(std::move(handler)), answer_time_(answer_time) {}

  absl::Status Start() {
    epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_.ok() || !Watch(EPOLL_CTL_ADD, listening_.fd(), kListening, EPOLLIN))
      return absl::ErrnoToStatus(errno, "wait for connections");
    return absl::OkStatus();
  }

  int wake_fd() const override { return epoll_.fd(); }

  absl::Duration WaitAtMost() const override {
    absl::Duration first = paused_until_.value_or(absl::InfiniteDuration());
    for (const auto& [number, connection] : connections_) first = std::min(first, connection.deadline);
    return first - BootTime();
  }

  bool answering(absl::Duration begun_before) const override {
    return std::any_of(connections_.begin(), connections_.end(), [&](const auto& one) {
      const Connection& connection = one.second;
      return connection.state == Connection::State::kAnswering && connection.deadline - answer_time_ < begun_before;
    });
  }

  void Run() override {
    epoll_event events[kMaxConnections + 1];
    const int count = epoll_wait(epoll_.fd(), events, std::size(events), 0);
    for (int i = 0; i < count; ++i) {
      const uint64_t number = events[i].data.u64;  // epoll_event is packed: a reference into it may be misaligned
      const auto found = connections_.find(number);
      if (found == connections_.end()) continue;
      if (!Continue(found->first, &found->second)) connections_.erase(found);
    }
    if (paused_until_ && *paused_until_ <= BootTime()) paused_until_.reset();
    while (!paused_until_ && connections_.size() < kMaxConnections && Accept()) {
    }
    DropLate();
    const bool accepts = !paused_until_ && connections_.size() < kMaxConnections;
    if (std::exchange(accepts_, accepts) != accepts)
      Watch(EPOLL_CTL_MOD, listening_.fd(), kListening, accepts ? EPOLLIN : 0);
  }

 private:
  bool Watch(int operation, int fd, uint64_t number, uint32_t what) {
    epoll_event event = {.events = what, .data = {.u64 = number}};
    return epoll_ctl(epoll_.fd(), operation, fd, &event) == 0;
  }

  bool Accept() {
    Fd socket(accept4(listening_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.ok()) {
      // The connection waits, and would wake the caller without end.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        paused_until_ = BootTime() + kPause;
      return false;
    }
    const int yes = 1;
    setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    const uint64_t number = ++last_number_;
    if (Watch(EPOLL_CTL_ADD, socket.fd(), number, EPOLLIN))
      connections_[number] = {.socket = std::move(socket), .deadline = BootTime() + kAskTime};
    return true;
  }

  // Drop connections past their deadline. If too many are unauthenticated, drop the oldest: a browser asks at once.
  void DropLate() {
    const absl::Duration now = BootTime();
    size_t strangers = 0;
    for (auto i = connections_.rbegin(); i != connections_.rend();) {
      const bool late = i->second.deadline < now || (i->second.stranger && ++strangers > kMaxStrangers);
      i = late ? std::make_reverse_iterator(connections_.erase(std::next(i).base())) : std::next(i);
    }
  }

  // False: the connection has ended.
  bool Continue(uint64_t number, Connection* connection) {
    if (connection->state == Connection::State::kClosing) return Discard(connection);
    if (connection->state == Connection::State::kReading && !Receive(connection)) return false;
    while (true) {
      if (connection->state == Connection::State::kReading && !Answer(connection)) break;
      if (connection->state == Connection::State::kAnswering && !Send(connection)) return false;
      if (connection->state != Connection::State::kReading) break;  // it can't be sent at once, or it was the last
    }
    return Watch(EPOLL_CTL_MOD, connection->socket.fd(), number,
                 connection->state == Connection::State::kAnswering ? EPOLLOUT : EPOLLIN);
  }

  static bool Receive(Connection* connection) {
    char piece[kMaxRequestBytes];
    const size_t room = kMaxRequestBytes - connection->received.size();
    const ssize_t bytes = read(connection->socket.fd(), piece, room);
    if (bytes > 0) connection->received.append(piece, bytes);
    return bytes > 0 || (bytes < 0 && (errno == EAGAIN || errno == EINTR));
  }

  static bool Discard(Connection* connection) {
    char piece[kMaxRequestBytes];
    const ssize_t bytes = read(connection->socket.fd(), piece, sizeof(piece));
    return bytes > 0 || (bytes < 0 && (errno == EAGAIN || errno == EINTR));
  }

  // Makes the answer to the next request. False: the request is not complete.
  bool Answer(Connection* connection) {
    const RequestHead head = ParseRequestHead(connection->received);
    if (head.bytes == 0 && head.refusal == 0) return false;
    connection->received.erase(0, head.bytes);
    HttpAnswer answer = head.refusal != 0 ? HttpAnswer{.status = head.refusal} : handler_(head.request);
    if (answer.status < 400) connection->stranger = false;
    const bool closes = std::any_of(answer.headers.begin(), answer.headers.end(),
                                    [](const auto& header) { return header.first == "Connection"; });
    connection->keeps = head.keeps && !closes;
    if (!head.keeps && !closes) answer.headers.emplace_back("Connection", "close");
    if (answer.status != 304)
      answer.headers.emplace_back("Content-Length", absl::StrCat(answer.body != nullptr ? answer.body->size() : 0));
    connection->head = absl::StrCat("HTTP/1.1 ", answer.status, " ", PhraseOf(answer.status), "\r\n");
    for (const auto& [name, value] : answer.headers) absl::StrAppend(&connection->head, name, ": ", value, "\r\n");
    connection->head += "\r\n";
    connection->body = head.request.page.method != "HEAD" ? std::move(answer.body) : nullptr;
    connection->sent = 0;
    connection->state = Connection::State::kAnswering;
    connection->deadline = BootTime() + answer_time_;
    return true;
  }

  // Sends what the socket takes. False: the connection has ended.
  static bool Send(Connection* connection) {
    const absl::string_view body = connection->body != nullptr ? absl::string_view(*connection->body) : "";
    const size_t size = connection->head.size() + body.size();
    while (connection->sent < size) {
      absl::string_view head = connection->head, rest = body;
      rest.remove_prefix(connection->sent - std::min(connection->sent, head.size()));
      head.remove_prefix(std::min(connection->sent, head.size()));
      iovec parts[] = {{const_cast<char*>(head.data()), head.size()}, {const_cast<char*>(rest.data()), rest.size()}};
      const msghdr message = {.msg_iov = parts, .msg_iovlen = std::size(parts)};
      const ssize_t bytes = sendmsg(connection->socket.fd(), &message, MSG_NOSIGNAL);
      if (bytes < 0) return errno == EAGAIN || errno == EINTR;
      connection->sent += bytes;
    }
    connection->body = nullptr;
    connection->state = connection->keeps ? Connection::State::kReading : Connection::State::kClosing;
    connection->deadline = BootTime() + (connection->keeps ? kIdleTime : kCloseTime);
    return connection->keeps || shutdown(connection->socket.fd(), SHUT_WR) == 0;
  }

  Fd listening_, epoll_;
  Handler handler_;
  absl::Duration answer_time_;
  bool accepts_ = true;
  std::optional<absl::Duration> paused_until_;  // accepts none
  std::map<uint64_t, Connection> connections_;  // in order of arrival
  uint64_t last_number_ = kListening;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(Fd listening, Handler handler,
                                                              absl::Duration answer_time) {
  auto server = std::make_unique<EpollServer>(std::move(listening), std::move(handler), answer_time);
  if (absl::Status status = server->Start(); !status.ok()) return status;
  return server;
}

}  // namespace cowprof
