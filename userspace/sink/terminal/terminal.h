// What a person sees while the recording runs: one line per tick, or a screen that refreshes. Plain text with a little
// colour; names that the target chose are made printable.
#ifndef COWPROF_SINK_TERMINAL_TERMINAL_H_
#define COWPROF_SINK_TERMINAL_TERMINAL_H_

#include <cstdio>
#include <memory>
#include <string>

#include "posix/nonblocking_output.h"
#include "sink/sink.h"

namespace cowprof {

enum class TerminalMode { kQuiet, kAlerts, kLines, kScreen };  // kAlerts: lines of alerts only

// Writes to `out` (stdout when attached, stderr when cowprof started the program, whose stdout is its own), which
// outlives the sink. While nobody reads it, alerts wait, and of ticks the latest. `page`: address of the page that is
// served; "": none.
std::unique_ptr<Sink> NewTerminal(TerminalMode mode, NonblockingOutput* out, bool coloured, const std::string& page);

// Whether `out` is a terminal that can show a screen, and says who is in its foreground.
bool CanShowScreen(FILE* out);

// The line of a tick, without the newline: "12.0 s  2 workers  copied 312.4 MiB (+12.1 MiB/s) ...".
std::string TickLine(const RunModel& model, const Findings& findings);

}  // namespace cowprof

#endif  // COWPROF_SINK_TERMINAL_TERMINAL_H_
