// Parses the head of an HTTP request, and refuses what RFC 9112 does not oblige it to tolerate. Pure.
// There is no parser of bodies: a request that announces one is the last of its connection.
#ifndef COWPROF_SERVE_HTTP_REQUEST_H_
#define COWPROF_SERVE_HTTP_REQUEST_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "serve/request_policy.h"

namespace cowprof {

inline constexpr size_t kMaxRequestBytes = 16 << 10;

struct HttpRequest {
  PageRequest page;
  std::string known_version;  // If-None-Match; "": none
};

struct RequestHead {
  size_t bytes = 0;      // of the head, with its empty line; 0: it is not complete
  unsigned refusal = 0;  // HTTP status if it can't be read; 0: it can
  bool keeps = false;    // another request may follow on the connection
  HttpRequest request;
};
// `received`: all that a connection sent since the last request.
RequestHead ParseRequestHead(absl::string_view received);

}  // namespace cowprof

#endif  // COWPROF_SERVE_HTTP_REQUEST_H_
