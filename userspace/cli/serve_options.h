// The value of --serve: text to the address of a page. Pure; called by options.cc alone, which knows the flag.
//
//   --serve        --serve 8080        --serve 127.0.0.1:8080        --serve localhost        --serve [::1]:8080
#ifndef COWPROF_SERVE_OPTIONS_H_
#define COWPROF_SERVE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace cowprof {

// Where the page is to be served: always on this machine's loopback.
struct ServeAddress {
  std::string host = "127.0.0.1";  // numeric, as inet_pton(3) reads it
  bool v6 = false;
  uint16_t port = 0;  // 0: a free one
};

// "" is the default. Returns what is wrong, as one sentence without its end; "": nothing.
std::string ParseServeAddress(absl::string_view text, ServeAddress* address);

}  // namespace cowprof

#endif  // COWPROF_SERVE_OPTIONS_H_
