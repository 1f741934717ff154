"""What a person sees on a terminal of 80 columns does not wrap, and is coloured where that is wanted; a pipe gets the whole text."""
import re

import pytest

import harness
from test_live_screen import Terminal

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ATTACH = ["--duration", "1500ms", "--interval", "200ms"]


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Of Python readers in a folder with a long name, in a cgroup and with limits as they are."""
    folder = tmp_path_factory.mktemp("a-folder-with-a-name-that-is-long")
    workload = harness.start_readers()
    try:
        done = harness.run_cowprof("--attach", workload.pid, "--quiet", "--output", folder / "r.json", *ATTACH)
    finally:
        workload.stop()
    assert done.returncode == 0, done.stderr
    return folder / "r.json"


def shown(arguments, columns=80, **environment):
    """The lines that cowprof writes to a terminal, with escape sequences."""
    terminal = Terminal(arguments, columns=columns, **environment)
    try:
        assert terminal.wait() == 0
    finally:
        terminal.close()
    return terminal.raw.decode().replace("\r\n", "\n").splitlines()


def too_wide(lines, columns=80):
    """Lines that wrap. Code stays whole, so that it can be copied."""
    plain = [ESCAPES.sub("", line) for line in lines]
    return [line for line in plain if len(line) > columns and not (line.startswith(" " * 8) and "  " not in line.strip())]


def test_the_report_fits(recording):
    whole = harness.run_cowprof("report", recording).stdout
    lines = shown(["report", recording])
    assert too_wide(whole.splitlines()), "nothing to fit"
    assert not too_wide(lines)
    assert lines[0].startswith("\x1b[1m")
    assert len(lines) >= len(whole.splitlines())


@pytest.mark.parametrize("how,coloured", {"auto": True, "always": True, "never": False}.items())
def test_colours_of_the_report_on_a_terminal(how, coloured, recording):
    assert ("\x1b" in "".join(shown(["report", recording, "--color", how]))) == coloured


def test_no_color_and_what_overrides_it(recording):
    assert "\x1b" not in "".join(shown(["report", recording], NO_COLOR="1"))
    assert "\x1b" in "".join(shown(["report", recording], NO_COLOR=""))  # empty: as if not set
    assert "\x1b" in "".join(shown(["report", recording, "--color=always"], NO_COLOR="1"))
    assert "\x1b" not in harness.run_cowprof("report", recording).stdout
    assert "\x1b" in harness.run_cowprof("report", recording, "--color", "always").stdout
    assert "\x1b" not in harness.run_cowprof("report", recording, "--color", "always", "--json").stdout


def test_lines_of_a_run_that_is_watched_fit(tmp_path):
    workload = harness.start_readers()
    try:
        lines = shown(["--attach", workload.pid, "--output", tmp_path / "r.json", *ATTACH])
    finally:
        workload.stop()
    ticks = [line for line in lines if re.match(r" +[0-9.]+ m?s  ", ESCAPES.sub("", line))]
    assert len(ticks) >= 3 and not too_wide(ticks), ticks
    assert not too_wide([line for line in lines if not line.startswith("cowprof: ")])


def test_help_fits():
    for command in ([], ["report"], ["view"], ["doctor"], ["shm"], ["pickle"], ["hang"], ["demo"], ["completions"]):
        lines = harness.run_cowprof(*command, "--help").stdout.splitlines()
        assert len(lines) > 10 and all(len(line) <= 80 for line in lines)
