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
constexpr absl::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr absl::string_view kLeave = "\x1b[H\x1b[J\x1b[?25h\x1b[?1049l";
constexpr absl::string_view kHome = "\x1b[H", kEndOfLine = "\x1b[K", kBelow = "\x1b[J", kReset = "\x1b[0m";

// Signals that end cowprof without running destructors.
constexpr int kDeadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};

// The terminal that was taken, for the signal handler.
struct Taken {
  int fd = -1;
  bool quieted = false;  // `before` is valid
  termios before;
} taken;

void Put(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd, text.data(), text.size());
    if (wrote <= 0) return;  // the terminal is gone
    text.remove_prefix(wrote);
  }
}

// Async-signal-safe: calls only write(2), tcgetpgrp(3), getpgrp(2) and tcsetattr(3).
void GiveBack() {
  if (taken.fd < 0) return;
  Put(taken.fd, kLeave);
  // From the background, tcsetattr() would stop us.
  if (taken.quieted && tcgetpgrp(taken.fd) == getpgrp()) tcsetattr(taken.fd, TCSADRAIN, &taken.before);
  taken.fd = -1;
}

void OnDeadlySignal(int signal) {
  GiveBack();
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

bool TerminalScreen::in_foreground() const { return tcgetpgrp(fd_) == getpgrp(); }

ScreenSize TerminalScreen::size() const {
  winsize size = {};
  if (ioctl(fd_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

void TerminalScreen::Enter() {
  entered_ = true;
  taken.fd = fd_;
  // Turn echo off: typed characters would appear between the lines.
  taken.quieted = tcgetattr(fd_, &taken.before) == 0;
  if (taken.quieted) {
    termios quiet = taken.before;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(fd_, TCSADRAIN, &quiet);
  }
  CatchDeadlySignals();
  Put(fd_, kEnter);
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
  Put(fd_, text);
}

void TerminalScreen::Leave() {
  if (!entered_) return;
  entered_ = false;
  GiveBack();
}

}  // namespace cowprof
