// The terminal as a screen: takes it, draws lines on it, and restores it, whatever ends cowprof (except kill -9: then
// `reset` helps). Owns every escape sequence of the screen.
//
// Uses only sequences of the VT100 and xterm, which every terminal today understands. ncurses would need a description
// of the terminal, would handle input, which we don't read, and signals, which the recording loop takes through a
// descriptor.
#ifndef COWPROF_SINK_TERMINAL_TERMINAL_SCREEN_H_
#define COWPROF_SINK_TERMINAL_TERMINAL_SCREEN_H_

#include <string>
#include <vector>

#include "posix/nonblocking_output.h"

namespace cowprof {

struct ScreenSize {
  int columns = 80, rows = 24;
};

struct ScreenLine {
  enum class Tone { kPlain, kStrong, kAlarm, kQuiet };
  std::string text;  // printable, and no wider than the screen
  Tone tone = Tone::kPlain;
};

class TerminalScreen {
 public:
  // `out` outlives it.
  TerminalScreen(NonblockingOutput* out, bool coloured) : out_(out), coloured_(coloured) {}
  ~TerminalScreen() { Leave(); }
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  // A background job must not draw.
  bool in_foreground() const;
  ScreenSize size() const;
  // Takes the terminal if it is not taken yet. While it takes no output (Ctrl-S), only the latest waits.
  void Show(const std::vector<ScreenLine>& lines);
  void Leave();

 private:
  void Enter();
  NonblockingOutput* out_;
  bool coloured_, entered_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_TERMINAL_TERMINAL_SCREEN_H_
