"""Hostile names of a command, its arguments, a path, a type and a function: the JSON stays valid, no escape sequence reaches the
terminal, no script gets into the page (S2 in THREATS.md).

tests/web/hostile.test.mjs opens the page of the same program in a browser.
"""
import json
import os
import re
import subprocess

import pytest

import harness
from test_hostile_python import UNPRINTABLE

PROGRAM = harness.REPOSITORY / "tests" / "system" / "workloads" / "hostile_names.py"
NAMES = json.loads(subprocess.run([harness.PYTHON, PROGRAM, "--list"], capture_output=True, check=True).stdout)
LONGEST = 4000  # characters of the arguments; everything else is shorter


def arguments():
    """The names as command-line arguments: without NUL, at most 128 KiB each."""
    return [os.fsencode(name.replace("\0", ""))[:100_000] for name in NAMES]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """(path of the recording, its output on stdout and stderr)."""
    path = tmp_path_factory.mktemp("hostile") / "out.json"
    target = subprocess.Popen([os.fsencode(harness.PYTHON), os.fsencode(PROGRAM), *arguments()], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        assert json.loads(target.stdout.readline())["role"] == "ready"
        recording = harness.Recording(path, ["--attach", target.pid, "--output", path, "--interval", "200ms", "--every-copy"])
        try:
            recording.await_sample()
            target.stdin.write("\n")
            target.stdin.flush()
            said, complained = recording.popen.communicate(timeout=120)
            assert recording.popen.returncode == 0, complained
        finally:
            recording.stop()
        assert json.loads(target.stdout.readline())["names"] == len(NAMES)
    finally:
        target.kill()
        target.communicate()
    return path, said + complained


def test_there_are_fifty_names_of_each_kind():
    assert len(set(NAMES)) >= 50
    for kind in "<script", "javascript:", "\"", "'", "`", "\u202e", "\0", "\x1b[", "\udcff", "L" * (1 << 20):
        assert any(kind in name for name in NAMES), kind


def test_output_is_valid_json(hostile):
    path, _ = hostile
    text = path.read_bytes().decode("utf-8", "strict")
    harness.validate(json.loads(text), "timeline.schema.json")
    result = subprocess.run([harness.COWPROF, "report", path, "--json"], capture_output=True, check=True)
    report = json.loads(result.stdout.decode("utf-8", "strict"))
    harness.validate(report, "report.schema.json")
    assert len(report["workers"]) == len(NAMES)
    assert len(text) < 4_000_000, "a name of a megabyte was stored"


def strings(value):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *strings(item))
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield re.sub(r"\\x[0-9a-f]{2}", "?", value)  # a byte that is not UTF-8


def test_names_are_recorded_and_bounded(hostile):
    """Types and functions appear under their own names, so the test is real, and none exceeds its bound."""
    path, _ = hostile
    document = harness.load_json(path)
    header = document["header"]
    assert all(len(text) <= LONGEST for record in document["records"] for text in strings(record))
    assert all(len(text) <= LONGEST for text in strings(header))
    found = "\n".join(strings(document["records"]))
    short = [name for name in NAMES if name.isprintable() and 0 < len(name) < 60]
    assert len(short) >= 30
    missing = [name for name in short if name not in found]
    assert not missing, missing


def assert_harmless(text):
    assert not UNPRINTABLE.search(text.replace("\r", "\n")), repr(UNPRINTABLE.search(text))
    assert max(map(len, text.splitlines()), default=0) < 4000


def test_no_escape_reaches_the_terminal(hostile):
    path, said = hostile
    assert_harmless(said)
    report = harness.run_cowprof("report", path)
    assert_harmless(report.stdout + report.stderr)
    view = harness.run_cowprof("view", path, "-o", path.with_suffix(".html"))
    assert view.returncode == 0
    assert_harmless(view.stdout + view.stderr)


def test_doctor_and_shm_print_no_escape():
    """doctor and shm on a process with a hostile name and hostile arguments."""
    script = "import os, sys; open('/proc/self/comm', 'wb').write(os.fsencode(sys.argv[1])[:15] or b'x'); print('{}', flush=True); sys.stdin.read()"
    for name in ("\x1b]0;t\x07", "\u202e\udcff\"<i>"):
        target = subprocess.Popen([harness.PYTHON, "-c", script, os.fsencode(name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            target.stdout.readline()
            for command in "doctor", "shm":
                result = harness.run_cowprof(command, target.pid)
                assert_harmless(result.stdout + result.stderr)
                document = subprocess.run([harness.COWPROF, command, "--json", str(target.pid)], capture_output=True, check=False).stdout
                json.loads(document.decode("utf-8", "strict"))
        finally:
            target.kill()
            target.communicate()


def test_the_page_holds_names_only_as_data(hostile):
    """Names appear in the page only inside its compressed data; the browser test opens it."""
    path, _ = hostile
    page = path.with_suffix(".page.html")
    assert harness.run_cowprof("view", path, "-o", page).returncode == 0
    text = page.read_text(encoding="utf-8")
    assert "pwned" not in text and "192.0.2.1" not in text
    title = re.search(r"<title>(.*?)</title>", text, re.S).group(1)
    assert "<" not in title and not UNPRINTABLE.search(title)
