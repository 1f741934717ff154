// `cowprof watch`.
#include "watch/watch.h"

#include "cli/commands.h"

namespace cowprof {

int WatchHost(const Options& options) { return RunWatch(options.watch); }

}  // namespace cowprof
