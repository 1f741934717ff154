// What `--live` shows: workers, limits, the lines that copy most, the forecast, alerts and losses, for a terminal of
// any size. Pure: figures in, lines out; terminal_screen draws them. Called by terminal.cc.
#ifndef COWPROF_SINK_SCREEN_H_
#define COWPROF_SINK_SCREEN_H_

#include <string>
#include <vector>

#include "model/growth.h"
#include "sink/terminal_screen.h"

namespace cowprof {

// At most `size.rows` lines of at most `size.columns`; what matters most is there at any size, and below 40x10 it is
// one line. `page`: address of the page that follows the run; "": none.
std::vector<ScreenLine> Screen(const Growth& growth, const ScreenSize& size, const std::string& page);

}  // namespace cowprof

#endif  // COWPROF_SINK_SCREEN_H_
