// Serves HTTP, single-threaded, in the caller's loop: answers GET and HEAD, reads no bodies. Owns connections and their
// limits; the handler decides who gets which answer. Why it is not a library: docs/design/http-server.md.
#ifndef COWPROF_SERVE_HTTP_H_
#define COWPROF_SERVE_HTTP_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "posix/fd.h"
#include "serve/http_request.h"

namespace cowprof {

inline constexpr size_t kMaxConnections = 64;

struct HttpAnswer {
  unsigned status = 200;
  std::shared_ptr<const std::string> body;  // or none
  std::vector<std::pair<std::string, std::string>> headers;
};

class HttpServer {
 public:
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;
  // Takes over a listening socket that does not block.
  // `answer_time`: that a client may take to receive an answer.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Fd listening, Handler handler, absl::Duration answer_time);
  virtual ~HttpServer() = default;

  virtual int wake_fd() const = 0;                // readable when Run() has something to do
  virtual absl::Duration WaitAtMost() const = 0;  // call Run() after this time even if not
  virtual void Run() = 0;                         // handles all that is pending; never blocks
  // An answer that was begun before that time is half sent.
  virtual bool answering(absl::Duration begun_before = absl::InfiniteDuration()) const = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SERVE_HTTP_H_
