// Parses the values of --serve and --metrics-listen. Pure.
//
//   --serve        --serve 8080        --serve 127.0.0.1:8080        --serve localhost        --serve [::1]:8080
#ifndef COWPROF_CLI_SERVE_OPTIONS_H_
#define COWPROF_CLI_SERVE_OPTIONS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "serve/serve_address.h"

namespace cowprof {

// "" means the default. Returns what is wrong as a sentence without a final period; "": nothing.
// `anywhere`: it need not be a loopback address.
std::string ParseServeAddress(absl::string_view text, ServeAddress* address, bool anywhere = false);

}  // namespace cowprof

#endif  // COWPROF_CLI_SERVE_OPTIONS_H_
