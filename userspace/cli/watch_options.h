// Declares the options of `watch` that a recording does not have.
#ifndef COWPROF_CLI_WATCH_OPTIONS_H_
#define COWPROF_CLI_WATCH_OPTIONS_H_

#include <CLI/CLI.hpp>

#include "watch/watch.h"

namespace cowprof {

void AddWatchOptions(CLI::App* command, WatchOptions* options);

}  // namespace cowprof

#endif  // COWPROF_CLI_WATCH_OPTIONS_H_
