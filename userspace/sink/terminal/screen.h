// What `--live` shows: workers, limits, the lines that copy most, the forecast, alerts and losses, for a terminal of
// any size. Pure: figures in, lines out; terminal_screen draws them.
#ifndef COWPROF_SINK_TERMINAL_SCREEN_H_
#define COWPROF_SINK_TERMINAL_SCREEN_H_

#include <string>
#include <vector>

#include "model/judge/findings.h"
#include "sink/terminal/terminal_screen.h"

namespace cowprof {

struct ScreenFrame {
  ScreenSize size;
  std::string page;  // address of the page that follows the run; "": none
};

// Returns at most `size.rows` lines of at most `size.columns`, with the most important at any size; below 40x10, one
// line. `findings` need Detail::kScreen.
std::vector<ScreenLine> Screen(const RunModel& model, const Findings& findings, const ScreenFrame& frame);

}  // namespace cowprof

#endif  // COWPROF_SINK_TERMINAL_SCREEN_H_
