// Finds training runs on this host and keeps a recorder for each. The starter of THREATS.md: has the rights to start
// recorders, and reads nothing that a stranger has written.
#ifndef COWPROF_WATCH_WATCH_H_
#define COWPROF_WATCH_WATCH_H_

#include <optional>
#include <string>
#include <vector>

#include "serve/serve_address.h"
#include "watch/keep.h"
#include "watch/match.h"

namespace cowprof {

struct WatchOptions {
  std::optional<CommandPattern> match;
  std::string folder = ".";
  KeepRule keep;
  size_t at_most = 16;
  std::string metrics_file;                    // "": none
  std::optional<ServeAddress> metrics_listen;  // absent: no endpoint
  std::vector<std::string> recording;          // options that recorders get
  bool has_hook = false;                       // --on-alert is among them
  bool quiet = false;
};

// Runs until a signal ends it. Returns the exit status; every failure has been reported on stderr by then.
int RunWatch(const WatchOptions& options);

}  // namespace cowprof

#endif  // COWPROF_WATCH_WATCH_H_
