// Serves HTTP with GNU libmicrohttpd, single-threaded, in the caller's loop. Owns connections and their limits; the
// handler decides who gets which answer.
//
// Of the servers that Debian ships, libmicrohttpd is the one that runs in a caller's loop without threads (the sandbox
// allows none) and bounds connections, memory and time; cpp-httplib starts a thread per connection. It is loaded with
// dlopen() by the serving process only: linked, its TLS libraries would cost every cowprof 3 MiB and 4 ms.
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
#include "serve/request_policy.h"

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
  // Takes over a listening socket. Unavailable: the library is not installed.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Fd listening, Handler handler);
  virtual ~HttpServer() = default;

  virtual int wake_fd() const = 0;                // readable when Run() has something to do
  virtual absl::Duration WaitAtMost() const = 0;  // call Run() after this time even if not
  virtual void Run() = 0;                         // handles all that is pending; never blocks
};

}  // namespace cowprof

#endif  // COWPROF_SERVE_HTTP_H_
