// The terminal as a screen: takes it, draws lines on it, and gives it back as it was, whatever ends cowprof (but for
// kill -9: then `reset` helps). Called by terminal.cc, which has the lines; owns every escape sequence of the screen.
//
// Seven sequences of the VT100 and xterm, which every terminal of today understands. ncurses would do the same with a
// description of the terminal that has to be there, input that we don't read, and its own handling of signals, where
// the recording loop takes them by descriptor.
#ifndef COWPROF_SINK_TERMINAL_TERMINAL_SCREEN_H_
#define COWPROF_SINK_TERMINAL_TERMINAL_SCREEN_H_

#include <string>
#include <vector>

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
  explicit TerminalScreen(int fd) : fd_(fd) {}
  ~TerminalScreen() { Leave(); }
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  // A job in the background has no screen.
  bool in_foreground() const;
  ScreenSize size() const;
  // Takes the terminal if it is not taken yet.
  void Show(const std::vector<ScreenLine>& lines);
  void Leave();

 private:
  void Enter();
  int fd_;
  bool entered_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_TERMINAL_TERMINAL_SCREEN_H_
