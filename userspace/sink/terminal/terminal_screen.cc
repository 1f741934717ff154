// Redraws the whole screen each time: 4 KB once per tick.
#include "sink/terminal/terminal_screen.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cowprof {
namespace {

// The alternate screen, and no cursor. A terminal without an alternate screen is left cleared.
// Without wrapping (DECAWM): where the terminal takes a character for wider than cowprof does, a line is cut.
constexpr absl::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr absl::string_view kLeave = "\x1b[H\x1b[J\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr absl::string_view kHome = "\x1b[H", kEndOfLine = "\x1b[K", kBelow = "\x1b[J", kReset = "\x1b[0m";

// Signals that end cowprof without running destructors.
constexpr int kDeadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};

// The terminal that was taken, for the signal handler.
struct Taken {
  const NonblockingOutput* out = nullptr;
  bool quieted = false;  // `before` is valid
  termios before;
} taken;

// Async-signal-safe: calls only tcgetpgrp(3), getpgrp(2) and tcsetattr(3). TCSANOW, as TCSADRAIN could wait for what
// others write there.
void RestoreEcho() {
  // From the background, tcsetattr() would stop us.
  const int fd = taken.out->fd();
  if (taken.quieted && tcgetpgrp(fd) == getpgrp()) tcsetattr(fd, TCSANOW, &taken.before);
  taken.out = nullptr;
}

void OnDeadlySignal(int signal) {
  if (taken.out != nullptr) {
    taken.out->Write(kLeave);
    RestoreEcho();
  }
  raise(signal);  // SA_RESETHAND: this time it kills
}

void CatchDeadlySignals() {
  struct sigaction action = {};
  action.sa_handler = OnDeadlySignal;
  action.sa_flags = SA_RESETHAND;
  for (int signal : kDeadly) {
    struct sigaction before;
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_DFL) sigaction(signal, &action, nullptr);  // ignored signals don't kill
  }
}

absl::string_view Colour(ScreenLine::Tone tone) {
  switch (tone) {
    case ScreenLine::Tone::kPlain:
      return "";
    case ScreenLine::Tone::kStrong:
      return "\x1b[1m";
    case ScreenLine::Tone::kAlarm:
      return "\x1b[1;31m";
    case ScreenLine::Tone::kQuiet:
      return "\x1b[2m";
  }
  return "";
}

}  // namespace

bool TerminalScreen::in_foreground() const { return tcgetpgrp(out_->fd()) == getpgrp(); }

ScreenSize TerminalScreen::size() const {
  winsize size = {};
  if (ioctl(out_->fd(), TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

void TerminalScreen::Enter() {
  entered_ = true;
  taken.out = out_;
  // Turn echo off: typed characters would appear between the lines.
  taken.quieted = tcgetattr(out_->fd(), &taken.before) == 0;
  if (taken.quieted) {
    termios quiet = taken.before;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(out_->fd(), TCSANOW, &quiet);
  }
  CatchDeadlySignals();
  out_->Put(kEnter);
}

void TerminalScreen::Show(const std::vector<ScreenLine>& lines) {
  if (!entered_) Enter();
  std::string text(kHome);
  for (size_t i = 0; i < lines.size(); ++i) {
    const absl::string_view tone = coloured_ ? Colour(lines[i].tone) : "";
    // Erase first: after a full line, the cursor is still on its last character. No newline after the last line: it
    // would scroll.
    absl::StrAppend(&text, i == 0 ? "" : "\r\n", kEndOfLine, tone, lines[i].text, tone.empty() ? "" : kReset);
  }
  if (lines.size() < static_cast<size_t>(size().rows)) absl::StrAppend(&text, "\r\n", kBelow);
  out_->Offer(text);
}

void TerminalScreen::Leave() {
  if (!entered_) return;
  entered_ = false;
  out_->Offer("");
  out_->Put(kLeave);
  RestoreEcho();
}

}  // namespace cowprof
