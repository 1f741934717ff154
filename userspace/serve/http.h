// The page's HTTP: GNU libmicrohttpd, in one thread and in our own loop. Owns connections and their limits; what is
// answered to whom is its handler's. Called by the page's server.
//
// Of the servers that Debian keeps it is the one that runs in a loop of ours, without a thread (the sandbox allows
// none), and bounds connections, memory and time by itself; cpp-httplib has a thread for every connection. It is loaded
// by the server alone: linked, its TLS libraries would cost every cowprof 3 MiB and 4 ms.
#ifndef COWPROF_SERVE_HTTP_H_
#define COWPROF_SERVE_HTTP_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "posix/fd.h"
#include "serve/door.h"

namespace cowprof {

struct HttpRequest {
  PageRequest page;
  std::string known_version;  // If-None-Match; "": none
};

struct HttpAnswer {
  unsigned status = 200;
  std::shared_ptr<const std::string> body;  // or none
  std::vector<std::pair<std::string, std::string>> headers;
};

class HttpServer {
 public:
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;
  // Takes a listening socket. Unavailable: the library is not on this machine.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Fd listening, Handler handler);
  virtual ~HttpServer() = default;

  virtual int wake_fd() const = 0;                // readable when there is something to do
  virtual absl::Duration WaitAtMost() const = 0;  // until there is something to do all the same
  virtual void Run() = 0;                         // does what there is to do, and waits for nothing
};

}  // namespace cowprof

#endif  // COWPROF_SERVE_HTTP_H_
