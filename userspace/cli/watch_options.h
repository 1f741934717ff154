// The options of `watch` that a recording does not have, and those that pass between it and its recorders.
#ifndef COWPROF_CLI_WATCH_OPTIONS_H_
#define COWPROF_CLI_WATCH_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "recorder/record.h"
#include "watch/watch.h"

namespace cowprof {

void AddWatchOptions(CLI::App* command, WatchOptions* options);

// What `watch` was given of the options of recording, as words for its recorders.
std::vector<std::string> WordsForRecorders(const CLI::App& watch);

// Parses what the recorder is given, "TICKS,LIFELINE,METRICS". Returns what is wrong; "": nothing.
std::string ParseWatched(const std::string& text, Watched* watched);

}  // namespace cowprof

#endif  // COWPROF_CLI_WATCH_OPTIONS_H_
