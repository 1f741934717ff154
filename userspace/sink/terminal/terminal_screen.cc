// Draws whole screens: 4 KB once a tick. See terminal_screen.h.
#include "sink/terminal/terminal_screen.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cowprof {
namespace {

// The alternate screen, and no cursor. A terminal without an alternate screen is left cleared.
constexpr absl::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr absl::string_view kLeave = "\x1b[H\x1b[J\x1b[?25h\x1b[?1049l";
constexpr absl::string_view kHome = "\x1b[H", kEndOfLine = "\x1b[K", kBelow = "\x1b[J", kReset = "\x1b[0m";

// What ends cowprof without a destructor being run.
constexpr int kDeadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};

// The terminal that is taken, for a signal handler.
struct Taken {
  int fd = -1;
  bool quieted = false;  // `before` holds
  termios before;
} taken;

void Put(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd, text.data(), text.size());
    if (wrote <= 0) return;  // a terminal that is gone
    text.remove_prefix(wrote);
  }
}

// Calls nothing but write(2), ioctl(2) and tcsetattr(3): a signal handler may.
void GiveBack() {
  if (taken.fd < 0) return;
  Put(taken.fd, kLeave);
  // From the background it would stop us.
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
    if (before.sa_handler == SIG_DFL) sigaction(signal, &action, nullptr);  // one that is ignored kills nobody
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
  // What is typed meanwhile is not to be seen between the lines.
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
  const bool colour = getenv("NO_COLOR") == nullptr;
  std::string text(kHome);
  for (size_t i = 0; i < lines.size(); ++i) {
    const absl::string_view tone = colour ? Colour(lines[i].tone) : "";
    // Erased first: after a line that is full, the cursor still stands on its last character. And no newline after the
    // last line: it would scroll.
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
