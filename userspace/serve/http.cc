// Loads libmicrohttpd with dlopen() and implements HttpServer with it.
#include "serve/http.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr char kLibrary[] = "libmicrohttpd.so.12";
constexpr unsigned kMaxConnections = 64;
constexpr size_t kMaxStrangers = 32;  // connections that have not sent a request with the token yet
constexpr size_t kMaxRequestBytes = 16 << 10;
// Time that a connection may take to send its request, to receive the answer, and until its next request.
constexpr absl::Duration kAskTime = absl::Seconds(5), kAnswerTime = absl::Seconds(60), kIdleTime = absl::Seconds(30);

// The functions of the library that are used.
struct Library {
  absl::Status Load() {
    void* const handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
      return absl::UnavailableError(absl::StrCat("load ", kLibrary, ": ", dlerror(), "; install libmicrohttpd12"));
    const char* missing = nullptr;
    const auto find = [&](auto* function, const char* name) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
      if (*function == nullptr) missing = name;
    };
    find(&start_daemon, "MHD_start_daemon");
    find(&run, "MHD_run");
    find(&daemon_info, "MHD_get_daemon_info");
    find(&timeout, "MHD_get_timeout");
    find(&connection_info, "MHD_get_connection_info");
    find(&lookup, "MHD_lookup_connection_value");
    find(&values, "MHD_get_connection_values");
    find(&make_response, "MHD_create_response_from_buffer_with_free_callback_cls");
    find(&make_empty, "MHD_create_response_from_buffer");
    find(&add_header, "MHD_add_response_header");
    find(&queue, "MHD_queue_response");
    find(&release, "MHD_destroy_response");
    return missing == nullptr ? absl::OkStatus()
                              : absl::UnavailableError(absl::StrCat(kLibrary, " is too old: it has no ", missing));
  }

  decltype(&MHD_start_daemon) start_daemon;
  decltype(&MHD_run) run;
  decltype(&MHD_get_daemon_info) daemon_info;
  decltype(&MHD_get_timeout) timeout;
  decltype(&MHD_get_connection_info) connection_info;
  decltype(&MHD_lookup_connection_value) lookup;
  decltype(&MHD_get_connection_values) values;
  decltype(&MHD_create_response_from_buffer_with_free_callback_cls) make_response;
  decltype(&MHD_create_response_from_buffer) make_empty;
  decltype(&MHD_add_response_header) add_header;
  decltype(&MHD_queue_response) queue;
  decltype(&MHD_destroy_response) release;
};

class MicroHttpd : public HttpServer {
 public:
  MicroHttpd(Fd listening, Handler handler) : listening_(std::move(listening)), handler_(std::move(handler)) {}

  absl::Status Start() {
    if (absl::Status status = library_.Load(); !status.ok()) return status;
    daemon_ =
        library_.start_daemon(MHD_USE_EPOLL, 0, nullptr, nullptr, &MicroHttpd::OnRequest, this,
                              MHD_OPTION_LISTEN_SOCKET, listening_.fd(), MHD_OPTION_CONNECTION_LIMIT, kMaxConnections,
                              MHD_OPTION_CONNECTION_MEMORY_LIMIT, kMaxRequestBytes, MHD_OPTION_NOTIFY_CONNECTION,
                              &MicroHttpd::OnConnection, this, MHD_OPTION_NOTIFY_COMPLETED, &MicroHttpd::OnCompleted,
                              this, MHD_OPTION_UNESCAPE_CALLBACK, &MicroHttpd::KeepEscapes, nullptr, MHD_OPTION_END);
    if (daemon_ == nullptr) return absl::InternalError("start libmicrohttpd: it refused");
    wake_fd_ = library_.daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return absl::OkStatus();
  }

  int wake_fd() const override { return wake_fd_; }

  absl::Duration WaitAtMost() const override {
    MHD_UNSIGNED_LONG_LONG milliseconds = 0;
    // Without connections there are no deadlines to enforce.
    if (library_.timeout(daemon_, &milliseconds) == MHD_YES) return absl::Milliseconds(milliseconds);
    return connections_.empty() ? absl::InfiniteDuration() : absl::Seconds(1);
  }

  void Run() override {
    library_.run(daemon_);
    ShutLate();
  }

 private:
  struct Connection {
    int socket;
    absl::Duration deadline;
    bool stranger = true;
    uint64_t number;  // in order of arrival
  };

  // Drop connections past their deadline. If too many are unauthenticated, drop the oldest: a browser asks at once.
  void ShutLate() {
    const absl::Duration now = BootTime();
    std::vector<const Connection*> strangers;
    for (const auto& [connection, state] : connections_) {
      if (state.deadline < now) shutdown(state.socket, SHUT_RDWR);
      if (state.stranger) strangers.push_back(&state);
    }
    if (strangers.size() <= kMaxStrangers) return;
    std::sort(strangers.begin(), strangers.end(), [](auto* a, auto* b) { return a->number < b->number; });
    strangers.resize(strangers.size() - kMaxStrangers);
    for (const Connection* stranger : strangers) shutdown(stranger->socket, SHUT_RDWR);
  }

  static void OnConnection(void* self, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode code) {
    auto* server = static_cast<MicroHttpd*>(self);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
      server->connections_.erase(connection);
      return;
    }
    const int socket = server->library_.connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    server->connections_[connection] = {socket, BootTime() + kAskTime, true, server->next_number_++};
  }

  static void OnCompleted(void* self, MHD_Connection* connection, void**, MHD_RequestTerminationCode) {
    auto* server = static_cast<MicroHttpd*>(self);
    const auto found = server->connections_.find(connection);
    if (found != server->connections_.end()) found->second.deadline = BootTime() + kIdleTime;
  }

  // No path or parameter here needs escapes, and a decoded %00 would truncate one.
  static size_t KeepEscapes(void*, MHD_Connection*, char* text) { return strlen(text); }

  std::vector<std::string> Values(MHD_Connection* connection, const char* name) const {
    struct Wanted {
      absl::string_view name;
      std::vector<std::string> values;
    } wanted = {name, {}};
    library_.values(
        connection, MHD_HEADER_KIND,
        [](void* self, MHD_ValueKind, const char* key, const char* value) {
          auto* out = static_cast<Wanted*>(self);
          if (strcasecmp(key, out->name.data()) == 0) out->values.emplace_back(value != nullptr ? value : "");
          return MHD_YES;
        },
        &wanted);
    return wanted.values;
  }

  std::string Value(MHD_Connection* connection, MHD_ValueKind kind, const char* name) const {
    const char* const value = library_.lookup(connection, kind, name);
    return value != nullptr ? value : "";
  }

  // libmicrohttpd calls this when the headers are complete, for each piece of a body, and at the end of the request. An
  // answer before the end refuses the rest and closes the connection: done for requests that have a body.
  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* path, const char* method, const char*,
                              const char*, size_t* body_bytes, void** seen) {
    const bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (reads && (std::exchange(*seen, self) == nullptr || *body_bytes > 0)) {
      *body_bytes = 0;
      return MHD_YES;
    }
    auto* server = static_cast<MicroHttpd*>(self);
    const HttpRequest request = {.page = {.method = method,
                                          .path = path,
                                          .token = server->Value(connection, MHD_GET_ARGUMENT_KIND, "token"),
                                          .hosts = server->Values(connection, "Host"),
                                          .origins = server->Values(connection, "Origin")},
                                 .known_version = server->Value(connection, MHD_HEADER_KIND, "If-None-Match")};
    const HttpAnswer answer = server->handler_(request);
    Connection& state = server->connections_[connection];
    state.deadline = BootTime() + kAnswerTime;
    if (answer.status < 400) state.stranger = false;
    return server->Queue(connection, answer);
  }

  MHD_Result Queue(MHD_Connection* connection, const HttpAnswer& answer) {
    MHD_Response* response =
        answer.body == nullptr ? library_.make_empty(0, const_cast<char*>(""), MHD_RESPMEM_PERSISTENT)
                               : library_.make_response(
                                     answer.body->size(), const_cast<char*>(answer.body->data()),
                                     [](void* body) { delete static_cast<std::shared_ptr<const std::string>*>(body); },
                                     new std::shared_ptr<const std::string>(answer.body));
    if (response == nullptr) return MHD_NO;
    for (const auto& [name, value] : answer.headers) library_.add_header(response, name.c_str(), value.c_str());
    const MHD_Result result = library_.queue(connection, answer.status, response);
    library_.release(response);  // the connection holds it until it is sent
    return result;
  }

  Library library_;
  Fd listening_;
  Handler handler_;
  MHD_Daemon* daemon_ = nullptr;  // ends with the process
  int wake_fd_ = -1;
  std::map<MHD_Connection*, Connection> connections_;
  uint64_t next_number_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(Fd listening, Handler handler) {
  auto server = std::make_unique<MicroHttpd>(std::move(listening), std::move(handler));
  if (absl::Status status = server->Start(); !status.ok()) return status;
  return server;
}

}  // namespace cowprof
