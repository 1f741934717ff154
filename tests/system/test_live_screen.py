"""`--live`: the screen shows the same facts at any size, follows the terminal, and restores it.

The terminal is a pseudo terminal with an emulator (pyte) at the other end, so the tests judge what a person would see.
"""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import pyte
import pytest

import harness


ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
SIZES = [(80, 24), (120, 40), (40, 10)]


class Terminal:
    """cowprof on its own pseudo terminal, in the foreground of its session."""

    def __init__(self, arguments, columns=80, rows=24, **environment):
        self.screen, self.raw = pyte.Screen(columns, rows), b""
        self.stream = pyte.ByteStream(self.screen)
        inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        environment = {**inherited, "TERM": "xterm-256color", **environment}
        # Keep cowprof's end open, to inspect it after cowprof has exited.
        self.fd, self.other = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.other)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                fcntl.ioctl(self.other, termios.TIOCSCTTY, 0)
                for fd in (0, 1, 2):
                    os.dup2(self.other, fd)
                os.closerange(3, 256)
                os.execve(harness.COWPROF, ["cowprof", *map(str, arguments)], environment)
            finally:
                os._exit(127)
        self.status = None

    def read(self, seconds):
        """Reads available output; False if there was none."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return False
        chunk = os.read(self.fd, 65536)
        self.raw += chunk
        self.stream.feed(chunk)
        return True

    @property
    def text(self):
        return "\n".join(self.screen.display)

    def wait_for(self, condition, what):
        deadline = time.monotonic() + harness.DEADLINE
        while not condition():
            assert time.monotonic() < deadline, f"waited for {what}; the screen:\n{self.text}"
            self.read(0.1)

    def wait_for_text(self, *words):
        self.wait_for(lambda: all(word in self.text for word in words), words)
        while self.read(0.02):  # the rest of that frame
            pass

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        self.screen.reset()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self):
        def ended():
            if self.status is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.status = status if pid else None
            return self.status is not None
        self.wait_for(ended, "cowprof to end")
        while self.read(0.02):
            pass
        return self.status

    def assert_clean(self):
        """The terminal is restored: primary screen, cursor, echo."""
        assert self.raw.count(ENTER) == self.raw.count(LEAVE) >= 1
        assert self.raw.rfind(LEAVE) > self.raw.rfind(ENTER)
        assert self.raw.rfind(b"\x1b[?25h") > self.raw.rfind(b"\x1b[?25l")
        assert termios.tcgetattr(self.other) == self.before

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
        os.close(self.other)


@pytest.fixture(scope="module")
def readers():
    process = harness.start_readers(3)
    yield process
    process.stop()


@pytest.fixture
def open_terminal(readers, tmp_path):
    opened = []

    def start(*options, target=readers, interval="100ms", **terminal):
        arguments = ["--attach", target.pid, "--live", "--interval", interval, "--output", tmp_path / f"{len(opened)}.json", *options]
        opened.append(Terminal(arguments, **terminal))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


# ---- What it shows ----


@pytest.mark.parametrize("columns,rows", SIZES)
def test_the_facts_are_shown_at_any_size(open_terminal, readers, columns, rows):
    terminal = open_terminal(columns=columns, rows=rows)
    terminal.wait_for_text("cowprof", f"pid {readers.pid}", "Forecast:", "host", "[", " %", "workers", "private", "Ctrl-C", "…" if columns == 40 else "parent")
    if columns == 40:
        return
    workers = next(line for line in readers.lines)["workers"]
    terminal.wait_for_text("copied because of: refcount", "steady_readers.py:17", *map(str, workers))
    print(terminal.text)


def test_wide_characters_keep_their_columns(open_terminal):
    terminal = open_terminal(columns=100, rows=30)
    terminal.wait_for(lambda: "読" in terminal.text, "the name of the function")
    terminal.wait_for_text("Ctrl-C")
    assert len([line for line in terminal.screen.display if line.startswith("cowprof  ")]) == 1, "the screen has scrolled"


def test_a_resize_is_followed_at_once(open_terminal):
    """With an hour between ticks, so it is not the next tick that redraws."""
    terminal = open_terminal(interval="1h")
    terminal.wait_for_text("Ctrl-C")
    for columns, rows in [(120, 40), (40, 10), (30, 5), (200, 60), (80, 24)]:
        terminal.resize(columns, rows)
        terminal.wait_for_text("worker" if (columns, rows) == (30, 5) else "Ctrl-C")
        lines = [line for line in terminal.screen.display if line.strip()]
        assert len(lines) == 1 if (columns, rows) == (30, 5) else terminal.screen.display[0].startswith("cowprof  ")


def test_no_colour_on_request(open_terminal):
    plain, coloured = open_terminal(NO_COLOR="1"), open_terminal()
    for terminal in (plain, coloured):
        terminal.wait_for_text("Ctrl-C")
    assert b"\x1b[1m" in coloured.raw and b"\x1b[1m" not in plain.raw


@pytest.mark.parametrize("term", ["dumb", ""])
def test_plain_lines_without_a_screen(open_terminal, term):
    terminal = open_terminal("--duration", "500ms", TERM=term)
    assert os.waitstatus_to_exitcode(terminal.wait()) == 0
    assert b"\x1b" not in terminal.raw.replace(b"\x1b[1;31m", b"").replace(b"\x1b[0m", b"") and b"workers" in terminal.raw


def test_the_address_of_the_page_is_on_it(open_terminal):
    terminal = open_terminal("--serve")
    terminal.wait_for_text("http://127.0.0.1:", "?token=", "Ctrl-C")


# ---- Every way out restores the terminal ----


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_leaves_it_clean(open_terminal, number):
    terminal = open_terminal()
    terminal.wait_for_text("Ctrl-C")
    assert termios.tcgetattr(terminal.other) != terminal.before, "typed characters were echoed"
    os.kill(terminal.pid, number)
    code = os.waitstatus_to_exitcode(terminal.wait())
    assert code == (-number if number in (signal.SIGSEGV, signal.SIGABRT) else 0)
    terminal.assert_clean()
    if code == 0:
        assert b"recorded in" in terminal.raw[terminal.raw.rfind(LEAVE):], "the report is not on the primary screen"


def test_ctrl_c_leaves_it_clean(open_terminal):
    terminal = open_terminal()
    terminal.wait_for_text("Ctrl-C")
    os.write(terminal.fd, b"\x03")
    assert os.waitstatus_to_exitcode(terminal.wait()) == 0
    terminal.assert_clean()


def test_the_duration_and_the_targets_end_leave_it_clean(open_terminal):
    terminal = open_terminal("--duration", "1s")
    assert os.waitstatus_to_exitcode(terminal.wait()) == 0
    terminal.assert_clean()
    short = harness.start_readers(1)
    try:
        terminal = open_terminal(target=short)
        terminal.wait_for_text("Ctrl-C")
        short.finish()
        assert os.waitstatus_to_exitcode(terminal.wait()) == 0
        terminal.assert_clean()
    finally:
        short.stop()


def test_messages_behind_the_screen_are_kept(open_terminal):
    terminal = open_terminal("--serve")
    terminal.wait_for_text("Ctrl-C")
    children = harness.Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)  # the process that serves is started after that which judges start methods
    terminal.wait_for(lambda: b"no longer served" in terminal.raw, "the message")
    at = terminal.raw.rfind(b"no longer served")
    assert terminal.raw.rfind(LEAVE, 0, at) > terminal.raw.rfind(ENTER, 0, at), "not on the primary screen, where it would stay"


def test_stopped_and_continued(open_terminal):
    """Ctrl-Z restores the terminal; SIGCONT takes it over again."""
    terminal = open_terminal()
    terminal.wait_for_text("Ctrl-C")
    # The process group is orphaned, so the kernel ignores the stop by SIGTSTP, but not SIGSTOP.
    os.kill(terminal.pid, signal.SIGTSTP)
    terminal.wait_for(lambda: terminal.raw.count(ENTER) == 2, "the screen to return")
    assert terminal.raw.count(LEAVE) == 1
    entered = len(terminal.raw)
    os.kill(terminal.pid, signal.SIGSTOP)
    terminal.wait_for(lambda: harness.Path(f"/proc/{terminal.pid}/stat").read_text().split(")")[1].split()[0] == "T", "cowprof to stop")
    terminal.screen.reset()  # as a shell would overwrite it
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.wait_for(lambda: len(terminal.raw) > entered, "a redraw")
    terminal.wait_for_text("Ctrl-C")
    os.write(terminal.fd, b"\x03")
    terminal.wait()
    terminal.assert_clean()


def test_a_terminal_stopped_with_ctrl_s_does_not_hold_the_recording(open_terminal, tmp_path):
    terminal, path = open_terminal(), tmp_path / "0.json"
    terminal.wait_for_text("Ctrl-C")
    termios.tcflow(terminal.other, termios.TCOOFF)
    before = len(harness.records_of(path))
    harness.wait_until(lambda: len(harness.records_of(path)) > before + 5, "the recording to go on")
    os.kill(terminal.pid, signal.SIGTERM)
    harness.wait_until(lambda: harness.last_record(path).get("type") == "end", "the end of the recording")
    termios.tcflow(terminal.other, termios.TCOON)
    assert os.waitstatus_to_exitcode(terminal.wait()) == 0
    terminal.assert_clean()
    assert b"recorded in" in terminal.raw[terminal.raw.rfind(LEAVE):]
