// Who may see the page, and what there is: judges a request by its method, address, Host, Origin and token. Pure; asked
// by the page's server for every request before anything is answered.
//
// A page of another origin can make the reader's browser send requests here. Its own name in Host gives away one that
// had its name resolved to this machine (DNS rebinding); Origin gives away the rest; and none of them knows the token.
#ifndef COWPROF_SERVE_DOOR_H_
#define COWPROF_SERVE_DOOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cowprof {

struct Door {
  std::string host;  // numeric address that the server is bound to
  uint16_t port = 0;
  std::string token;
};

struct PageRequest {
  std::string method, path;                 // the path without its query
  std::string token;                        // of the query; "": none
  std::vector<std::string> hosts, origins;  // values of these headers, one for each time they were sent
};

enum class Asked { kNothing, kPage, kData };

struct Ruling {
  unsigned status = 200;
  absl::string_view words;        // for the reader, where `status` is not 200
  Asked asked = Asked::kNothing;  // what to answer, where it is
};
Ruling RuleOn(const PageRequest& request, const Door& door);

// 128 bits of the kernel's randomness, as 32 hexadecimal digits.
std::string NewToken();

// "http://127.0.0.1:8080/?token=..."
std::string AddressOf(const Door& door);

}  // namespace cowprof

#endif  // COWPROF_SERVE_DOOR_H_
