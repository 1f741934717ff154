// The address that a live page, or metrics, are served at. Plain data.
#ifndef COWPROF_SERVE_SERVE_ADDRESS_H_
#define COWPROF_SERVE_SERVE_ADDRESS_H_

#include <cstdint>
#include <string>

namespace cowprof {

// Of a page, always on this machine's loopback interface.
struct ServeAddress {
  std::string host = "127.0.0.1";  // numeric, as inet_ntop(3) spells it
  bool v6 = false;
  uint16_t port = 0;  // 0: let the kernel choose a free port
};

}  // namespace cowprof

#endif  // COWPROF_SERVE_SERVE_ADDRESS_H_
